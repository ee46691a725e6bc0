-- Full text search over threads.

-- One row a title (its key is the thread's, with one more bit: see src/threads/search.rs) and one a searchable item that has ended (its key is the
-- item's). What is in it are not texts but their words, as src/threads/search/words.rs makes them: folded, each Chinese, Japanese, Korean,
-- Thai … character a word of its own, and each word marked with the tenant, so that looking one up, by its beginning too, meets nothing
-- of another tenant's. "ascii" takes such words as they are: it divides at ASCII's white space alone and treats all other scripts as letters.
-- The words are kept too, because a row is taken out by what was put in, whatever later versions make of the same text.
CREATE VIRTUAL TABLE search_index USING fts5 (thread, title, message, output, tokenize = 'ascii');

-- What is deleted leaves the index at once, not with a merge some day.
INSERT INTO search_index (search_index, rank) VALUES ('secure-delete', 1);
