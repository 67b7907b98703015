#include "data/graphs/graph_files.h"
#include "support/compare.h"

using namespace topomask;
using namespace topomask::testing;

namespace {

std::string word(const std::string& id, const std::string& form, const std::string& tag, const std::string& head) {
  return id + "\t" + form + "\t_\t" + tag + "\t_\t_\t" + head + "\t_\t_\t_\n";
}

/// A contraction that stands for two words, and a word that was left out.
const std::string kSentences = "# sent_id = 1\n" + word("1-2", "can't", "_", "_") + word("1", "ca", "AUX", "3") +
                               word("2", "n't", "PART", "3") + word("3", "go", "VERB", "0") +
                               word("3.1", "home", "NOUN", "_") + "\n# sent_id = 2\n" + word("1", "Yes", "INTJ", "0") +
                               word("2", "!", "_", "1") + "\n\n";

GraphDataOptions conllu_options(const std::string& path) {
  return {.kind = "conllu", .path = path, .validation_fraction = 0, .test_fraction = 0};
}

void expect_conllu_damaged(const std::string& text, const std::string& fault) {
  const TemporaryFolder folder;
  write_file(folder / "x.conllu", text);
  EXPECT_ERROR(open_graphs(conllu_options(folder / "x.conllu")), "open_graphs: " + folder / "x.conllu" + fault);
}

void check_sentences(const GraphSet& set) {
  EXPECT_EQ(set.size(), 2);
  EXPECT_TRUE(set.node_labels);
  EXPECT_TRUE(set.offsets.equal(at::tensor({0, 3, 5}, at::kLong)));
  EXPECT_TRUE(set.parents.equal(at::tensor({2, 2, -1, -1, 3}, at::kLong)));
  EXPECT_EQ(set.graph.num_edges(), 3);
  EXPECT_EQ(set.classes.size(), 17);
  EXPECT_EQ(set.classes[set.labels[1].item<int64_t>()], "PART");
  EXPECT_EQ(set.labels[4].item<int64_t>(), -1);
  EXPECT_EQ(set.features.sizes(), at::IntArrayRef({5, 256}));
}

}  // namespace

TEST(ConlluSet, IsReadAsTrees) {
  const TemporaryFolder folder;
  write_file(folder / "a.conllu", kSentences);
  const auto [set, split] = open_graphs(conllu_options(folder / "a.conllu"));
  check_sentences(set);
  EXPECT_FALSE(split.by_node);
  EXPECT_EQ(split.train, (std::vector<int64_t>{0, 1}));
  write_file(folder / "b.conllu.gz", gzip(kSentences.substr(0, kSentences.size() - 2)));  // ends with its last word
  check_sentences(open_graphs(conllu_options(folder / "b.conllu.gz")).set);
}

TEST(ConlluSet, IsSplitByItsFiles) {
  const TemporaryFolder folder;
  write_file(folder / "en_x-ud-train_rebuilt.conllu", kSentences);
  write_file(folder / "en_x-ud-dev.conllu.gz", gzip(kSentences));
  write_file(folder / "en_x-ud-test.conllu", kSentences + kSentences);
  write_file(folder / "README.md", "x");
  const auto [set, split] = open_graphs(conllu_options(folder.path().string()));
  EXPECT_EQ(set.size(), 8);
  EXPECT_EQ(split.train, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(split.validation, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(split.test, (std::vector<int64_t>{4, 5, 6, 7}));
  const GraphSample sample = take(set, {7, 0});
  EXPECT_TRUE(sample.parents.equal(at::tensor({-1, 0, 4, 4, -1}, at::kLong)));
}

TEST(ConlluSet, HasFeaturesOfTheWordAlone) {
  const TemporaryFolder folder;
  write_file(folder / "a.conllu", word("1", "walking", "VERB", "0") + word("2", "talking", "NOUN", "1") +
                                      word("3", "walking", "NOUN", "1") + word("4", "\xC3\xA9t\xC3\xA9", "NOUN", "1"));
  GraphDataOptions options = conllu_options(folder / "a.conllu");
  const at::Tensor features = open_graphs(options).set.features;
  EXPECT_TRUE(close(features.norm(2, 1), at::ones({4}), 1e-6));
  EXPECT_TRUE(features[0].equal(features[2]));
  const auto cosine = [&](int64_t i, int64_t j) { return at::dot(features[i], features[j]).item<double>(); };
  EXPECT_GT(cosine(0, 1), .5);
  EXPECT_LT(std::abs(cosine(0, 3)), .4);
  EXPECT_TRUE(open_graphs(options).set.features.equal(features));
  options.seed = 1;
  EXPECT_FALSE(open_graphs(options).set.features.equal(features));
  options.ngram_features = 7;
  EXPECT_EQ(open_graphs(options).set.num_features(), 7);
}

TEST(ConlluSet, IsRefusedWithTheLineOfTheFault) {
  const std::string one = word("1", "a", "X", "0");
  expect_conllu_damaged(one + "2\tb\tX\n", ":2: expected 10 columns between tabs, got 3");
  expect_conllu_damaged(one + word("3", "b", "X", "1"),
                        ":2: words of a sentence must be numbered from 1, expected 2, got \"3\"");
  expect_conllu_damaged(one + word("x", "b", "X", "1"), ":2: expected a word number in column 1, got \"x\"");
  expect_conllu_damaged(one + word("2-x", "b", "X", "1"), ":2: expected a word number in column 1, got \"x\"");
  expect_conllu_damaged(one + word("2", "b", "NOWN", "1"),
                        ":2: expected a universal part of speech in column 4, got \"NOWN\"");
  expect_conllu_damaged(one + word("2", "b", "X", "_"), ":2: expected the number of the head in column 7, got \"_\"");
  expect_conllu_damaged(one + word("2", "b", "X", "-1"), ":2: expected the number of the head in column 7, got \"-1\"");
  expect_conllu_damaged(one + word("2", "b", "X", "3"),
                        ":2: the head must be from 0 to 2, the words of the sentence, got 3");
  expect_conllu_damaged(one + word("2", "", "X", "1"), ":2: column 2, the word, must not be empty");
  expect_conllu_damaged(one + word("2", "b", "X", "3") + word("3", "c", "X", "2"),
                        ":2: word 2 must not depend on itself");
  expect_conllu_damaged("# nothing\n\n", ": the file has no sentence");
}

TEST(ConlluSet, IsRefusedWhereItIsPackedOrIncomplete) {
  const TemporaryFolder folder;
  write_file(folder / "a-ud-train.conllu.xz", "x");
  EXPECT_ERROR(open_graphs(conllu_options(folder / "a-ud-train.conllu.xz")),
               "xz files are not read; unpack it first: xz -dk " + folder / "a-ud-train.conllu.xz");
  EXPECT_ERROR(open_graphs(conllu_options(folder.path().string())),
               "a-ud-train.conllu.xz: xz files are not read; unpack it first");
  write_file(folder / "a-ud-train.conllu", kSentences);
  EXPECT_ERROR(open_graphs(conllu_options(folder.path().string())), "no file NAME-ud-dev.conllu or .conllu.gz");
}
