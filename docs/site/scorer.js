// The order of search results: pages of single cases, of vendors and of changes come after the guides. A word in a title
// still counts most. The other values are those of Sphinx's own Scorer, which this one replaces.
var Scorer = {
  LATER: /^(docs\/(zh\/)?cases\/|vendors\/|CHANGELOG|CONTRIBUTING)/,
  score: ([page, , , , score]) => (Scorer.LATER.test(page) ? score - 4 : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
