//! What statements are given. The values go through one function, whatever their types and their number: rusqlite's own way is a copy of
//! the code for each combination of types.

use rusqlite::types::ToSql;
use rusqlite::{Error, Result, Statement};

/// The values for `?1`, `?2` and so on.
pub(crate) trait Parameters {
    fn bind(&self, binder: &mut Binder<'_, '_>);
}

pub(crate) struct Binder<'s, 'c> {
    statement: &'s mut Statement<'c>,
    bound: usize,
    outcome: Result<()>,
}

impl Binder<'_, '_> {
    fn bind(&mut self, value: &dyn ToSql) {
        if self.outcome.is_ok() {
            self.bound += 1;
            self.outcome = self.statement.raw_bind_parameter(self.bound, value);
        }
    }
}

/// Gives a statement all its values.
pub(crate) fn bind(statement: &mut Statement<'_>, parameters: &dyn Parameters) -> Result<()> {
    let expected = statement.parameter_count();
    let mut binder = Binder { statement, bound: 0, outcome: Ok(()) };
    parameters.bind(&mut binder);
    let Binder { bound, outcome, .. } = binder;
    outcome?;
    if bound == expected { Ok(()) } else { Err(Error::InvalidParameterCount(bound, expected)) }
}

macro_rules! tuples {
    ($($($value:ident)+;)*) => {$(
        impl<$($value: ToSql),+> Parameters for ($($value,)+) {
            #[expect(non_snake_case, reason = "each value has the name of its type")]
            fn bind(&self, binder: &mut Binder<'_, '_>) {
                let ($($value,)+) = self;
                $(binder.bind($value);)+
            }
        }
    )*};
}

tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
    A B C D E F G H I;
    A B C D E F G H I J;
    A B C D E F G H I J K;
    A B C D E F G H I J K L;
    A B C D E F G H I J K L M;
    A B C D E F G H I J K L M N;
    A B C D E F G H I J K L M N O;
    A B C D E F G H I J K L M N O P;
}

impl Parameters for () {
    fn bind(&self, _: &mut Binder<'_, '_>) {}
}

impl<T: ToSql, const N: usize> Parameters for [T; N] {
    fn bind(&self, binder: &mut Binder<'_, '_>) {
        self.iter().for_each(|value| binder.bind(value));
    }
}

impl Parameters for &[&dyn ToSql] {
    fn bind(&self, binder: &mut Binder<'_, '_>) {
        self.iter().for_each(|value| binder.bind(*value));
    }
}

/// What `rusqlite::params!` makes.
impl<const N: usize> Parameters for &[&dyn ToSql; N] {
    fn bind(&self, binder: &mut Binder<'_, '_>) {
        self.iter().for_each(|value| binder.bind(*value));
    }
}
