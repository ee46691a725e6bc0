//! Words: what full text search finds a text by.

use std::ops::Range;
use std::sync::LazyLock;

/// A word is known by this many characters of its beginning. What is longer is seldom written by hand, and looked for by its beginning.
const LONGEST_WORD: usize = 64;

/// Lower case letters with marks, each followed by the letter that they are folded to. What SQLite's own tokenizer folds, and kana.
const FOLDS: &str = "\
    àaáaâaãaäaåaçcèeéeêeëeìiíiîiïiðdñnòoóoôoõoöoøoùuúuûuüuýyÿyāaăaąaćcĉcċcčcďdđdēeĕeėeęeěeĝgğgġgģgĥhħhĩiīiĭiįiıiĵjķkĺlļlľlłl\
    ńnņnňnōoŏoőoŕrŗrřrśsŝsşsšsţtťtŧtũuūuŭuůuűuųuŵwŷyźzżzžzƀbơoưuǎaǐiǒoǔuǖuǘuǚuǜuǟaǡaǣæǧgǩkǫoǭoǯʒǰjǵgǹnǻaǽæǿoȁaȃaȅeȇeȉiȋiȍoȏo\
    ȑrȓrȕuȗușsțtȟhȧaȩeȫoȭoȯoȱoȳyɨiʉuḁaḃbḅbḇbḉcḋdḍdḏdḑdḓdḕeḗeḙeḛeḝeḟfḡgḣhḥhḧhḩhḫhḭiḯiḱkḳkḵkḷlḹlḻlḽlḿmṁmṃmṅnṇnṉnṋnṍoṏoṑoṓoṕpṗp\
    ṙrṛrṝrṟrṡsṣsṥsṧsṩsṫtṭtṯtṱtṳuṵuṷuṹuṻuṽvṿvẁwẃwẅwẇwẉwẋxẍxẏyẑzẓzẕzẖhẗtẘwẙyẛſạaảaấaầaẩaẫaậaắaằaẳaẵaặaẹeẻeẽeếeềeểeễeệeỉiịiọoỏo\
    ốoồoổoỗoộoớoờoởoỡoợoụuủuứuừuửuữuựuỳyỵyỷyỹy\
    ΐιάαέεήηίιΰυϊιϋυόούυώωἀαἁαἂαἃαἄαἅαἆαἇαἐεἑεἒεἓεἔεἕεἠηἡηἢηἣηἤηἥηἦηἧηἰιἱιἲιἳιἴιἵιἶιἷιὀοὁοὂοὃοὄοὅοὐυὑυὒυὓυὔυὕυὖυὗυὠωὡωὢωὣωὤω\
    ὥωὦωὧωὰαάαὲεέεὴηήηὶιίιὸοόοὺυύυὼωώωᾀαᾁαᾂαᾃαᾄαᾅαᾆαᾇαᾐηᾑηᾒηᾓηᾔηᾕηᾖηᾗηᾠωᾡωᾢωᾣωᾤωᾥωᾦωᾧωᾰαᾱαᾲαᾳαᾴαᾶαᾷαῂηῃηῄηῆηῇηῐιῑιῒιΐιῖιῗιῠυ\
    ῡυῢυΰυῤρῥρῦυῧυῲωῳωῴωῶωῷωςσ\
    йиѐеёеѓгїіќкѝиўуѷѵӂжӑаӓаӗеӛәӝжӟзӣиӥиӧоӫөӭэӯуӱуӳуӵчӹы\
    がかぎきぐくげけごこざさじしずすぜせぞそだたぢちづつでてどとばはぱはびひぴひぶふぷふべへぺへぼほぽほゔうゞゝガカギキグクゲケゴコザサジシズスゼセゾソダタヂチヅツデテドトバハパハビヒピヒブフプフベヘペヘボホポホヴウヷワヸヰヹヱヺヲヾヽ";

static FOLDED: LazyLock<Vec<(char, char)>> = LazyLock::new(|| {
    let letters: Vec<char> = FOLDS.chars().collect();
    let mut pairs: Vec<_> = letters.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    pairs.sort_unstable();
    pairs
});

enum Class {
    /// A part of a word.
    Letter,
    /// A word by itself: these scripts put no space between words, so that a word may begin at any character. Emoji likewise.
    Alone,
    /// What changes a letter, or cannot be seen: neither here nor there.
    Mark,
    /// What stands between words.
    Gap,
}

impl Class {
    fn of(c: char) -> Self {
        match c {
            '\0'..='\x7f' if c.is_ascii_alphanumeric() => Self::Letter,
            '\0'..='\x7f' => Self::Gap,
            _ if is_alone(c) => Self::Alone,
            '\u{ad}'
            | '\u{300}'..='\u{36f}'
            | '\u{483}'..='\u{489}'
            | '\u{591}'..='\u{5bd}'
            | '\u{5bf}'
            | '\u{5c1}'
            | '\u{5c2}'
            | '\u{5c4}'
            | '\u{5c5}'
            | '\u{5c7}'
            | '\u{610}'..='\u{61a}'
            | '\u{64b}'..='\u{65f}'
            | '\u{670}'
            | '\u{6d6}'..='\u{6dc}'
            | '\u{1ab0}'..='\u{1aff}'
            | '\u{1dc0}'..='\u{1dff}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2060}'
            | '\u{20d0}'..='\u{20ff}'
            | '\u{3099}'
            | '\u{309a}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{fe20}'..='\u{fe2f}'
            | '\u{feff}'
            | '\u{1f3fb}'..='\u{1f3ff}' => Self::Mark,
            _ if c.is_alphanumeric() => Self::Letter,
            _ => Self::Gap,
        }
    }
}

/// Whether a character is a word by itself.
pub(super) fn is_alone(c: char) -> bool {
    matches!(c,
        // Thai, Lao, Myanmar, Khmer.
        '\u{e01}'..='\u{edf}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17dd}'
        // Emoji, but for the marks of skin among them.
        | '\u{2600}'..='\u{27bf}' | '\u{1f000}'..='\u{1f3fa}' | '\u{1f400}'..='\u{1faff}'
        // Kana, Bopomofo, Han, Hangul.
        | '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{3096}' | '\u{309d}'..='\u{30fa}' | '\u{30fc}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}')
}

/// The form by which a character is found: without case, marks and width.
fn fold(c: char, into: &mut String) {
    for c in c.to_lowercase() {
        match c {
            _ if c.is_ascii() => into.push(c),
            'æ' => into.push_str("ae"),
            'œ' => into.push_str("oe"),
            'ß' => into.push_str("ss"),
            _ if matches!(Class::of(c), Class::Mark) => {}
            _ => into.push(FOLDED.binary_search_by_key(&c, |pair| pair.0).map_or(c, |at| FOLDED[at].1)),
        }
    }
}

/// Calls `visit` with each word of a text, folded, and where it is in it, until that answers false.
pub(super) fn words(text: &str, mut visit: impl FnMut(&str, Range<usize>) -> bool) {
    let mut word = String::new();
    let mut length = 0;
    let mut place = 0..0;
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        // The full-width forms of ASCII.
        let c = match c {
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
            _ => c,
        };
        let class = Class::of(c);
        match class {
            Class::Letter => {
                if length == 0 {
                    place.start = at;
                }
                place.end = end;
                if length < LONGEST_WORD {
                    fold(c, &mut word);
                }
                length += 1;
                continue;
            }
            Class::Mark => {
                if length > 0 {
                    place.end = end;
                }
                continue;
            }
            Class::Alone | Class::Gap => {}
        }
        if length > 0 && !word.is_empty() && !visit(&word, place.clone()) {
            return;
        }
        word.clear();
        length = 0;
        if matches!(class, Class::Alone) {
            fold(c, &mut word);
            if !visit(&word, at..end) {
                return;
            }
            word.clear();
        }
    }
    if !word.is_empty() {
        visit(&word, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        words(text, |word, place| {
            assert!(text.is_char_boundary(place.start) && text.is_char_boundary(place.end) && place.start < place.end);
            all.push(word.to_owned());
            true
        });
        all
    }

    #[test]
    fn words_are_folded() {
        assert_eq!(all("Crème BRÛLÉE, naïve Ångström"), ["creme", "brulee", "naive", "angstrom"]);
        assert_eq!(all("cre\u{300}me Straße Æther Łódź İstanbul"), ["creme", "strasse", "aether", "lodz", "istanbul"]);
        assert_eq!(all("Ελλάδα ΟΔΟΣ Ёлка Việt"), ["ελλαδα", "οδοσ", "елка", "viet"]);
        assert_eq!(all("src/main.rs snake_case v1.2 don't"), ["src", "main", "rs", "snake", "case", "v1", "2", "don", "t"]);
        assert_eq!(all("ＦＵＬＬ　ｗｉｄｔｈ"), ["full", "width"]);
        assert_eq!(all("\0 --- \u{301} *\"'()"), Vec::<String>::new());
    }

    #[test]
    fn scripts_without_spaces_are_found_by_each_character() {
        assert_eq!(all("GPT模型が走る"), ["gpt", "模", "型", "か", "走", "る"]);
        assert_eq!(all("か\u{3099}"), all("が"));
        assert_eq!(all("학교에서"), ["학", "교", "에", "서"]);
        assert_eq!(all("ok🚀go"), ["ok", "🚀", "go"]);
    }

    #[test]
    fn a_long_word_is_known_by_its_beginning() {
        assert_eq!(all(&"x".repeat(100_000)), ["x".repeat(LONGEST_WORD)]);
    }
}
