// Chinese search. Sphinx cuts the pages into words with jieba, but cuts a query only at spaces.

// Sphinx 9.0 names this class in the Chinese index, and ships only the English class.
function ChineseStemmer() {
  return new EnglishStemmer();
}

// Cuts a query into words of the search index: from left to right the longest word that the index has. The index has no
// single characters, so these are left out.
var splitQuery = (query) => {
  const known = (word) => word in Search._index.terms || word in Search._index.titleterms;
  const cut = (text) => {
    const words = [];
    for (let start = 0; start < text.length; ) {
      let end = text.length;
      while (end > start + 1 && !known(text.slice(start, end))) end -= 1;
      words.push(text.slice(start, end));
      start = end;
    }
    const longer = words.filter((word) => word.length > 1);
    return longer.length ? longer : [text];
  };
  return query.split(/[^\p{Letter}\p{Number}_]+/u)
    .flatMap((piece) => piece.match(/\p{Script=Han}+|[^\p{Script=Han}]+/gu) ?? [])
    .flatMap((piece) => (/\p{Script=Han}/u.test(piece) ? cut(piece) : [piece]));
};
