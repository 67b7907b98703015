#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <span>

#include "data/graphs/ancestors.h"
#include "data/graphs/features.h"
#include "data/graphs/readers.h"
#include "data/graphs/splits.h"
#include "io/quoted.h"

namespace topomask {
namespace {

constexpr size_t kColumns = 10, kId = 0, kForm = 1, kUpos = 3, kHead = 6;

/// The universal parts of speech (Universal Dependencies 2).
constexpr std::array<std::string_view, 17> kPartsOfSpeech{"ADJ",   "ADP",   "ADV", "AUX",  "CCONJ", "DET",
                                                          "INTJ",  "NOUN",  "NUM", "PART", "PRON",  "PROPN",
                                                          "PUNCT", "SCONJ", "SYM", "VERB", "X"};

std::array<std::string_view, kColumns> columns_of(const io::LineReader& reader) {
  std::array<std::string_view, kColumns> columns;
  std::string_view rest = reader.line();
  const auto found = static_cast<size_t>(std::count(rest.begin(), rest.end(), '\t')) + 1;
  if (found != kColumns) reader.fail_here("expected 10 columns between tabs, got ", found);
  for (std::string_view& column : columns) {
    column = rest.substr(0, rest.find('\t'));
    rest.remove_prefix(std::min(column.size() + 1, rest.size()));
  }
  return columns;
}

int64_t whole_number(const io::LineReader& reader, std::string_view text, const char* what) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) {
    reader.fail_here("expected ", what, ", got ", io::quoted(text));
  }
  return value;
}

int64_t part_of_speech(const io::LineReader& reader, std::string_view tag) {
  if (tag == "_") return -1;
  const auto* found = std::find(kPartsOfSpeech.begin(), kPartsOfSpeech.end(), tag);
  if (found == kPartsOfSpeech.end()) {
    reader.fail_here("expected a universal part of speech in column 4, got ", io::quoted(tag));
  }
  return found - kPartsOfSpeech.begin();
}

}  // namespace

void ConlluReader::add_word(const io::LineReader& reader) {
  const auto columns = columns_of(reader);
  const std::string_view id = columns[kId];
  if (id.find_first_of("-.") != std::string_view::npos) {  // of several words, or of one that was left out
    const size_t mark = id.find_first_of("-.");
    whole_number(reader, id.substr(0, mark), "a word number in column 1");
    whole_number(reader, id.substr(mark + 1), "a word number in column 1");
    return;
  }
  const auto expected = static_cast<int64_t>(lines_.size()) + 1;
  if (whole_number(reader, id, "a word number in column 1") != expected) {
    reader.fail_here("words of a sentence must be numbered from 1, expected ", expected, ", got ", io::quoted(id));
  }
  if (columns[kForm].empty()) reader.fail_here("column 2, the word, must not be empty");
  labels_.push_back(part_of_speech(reader, columns[kUpos]));
  parents_.push_back(whole_number(reader, columns[kHead], "the number of the head in column 7") - 1);
  lines_.push_back(reader.number());
  forms_ += columns[kForm];
  form_end_.push_back(static_cast<int64_t>(forms_.size()));
}

void ConlluReader::end_sentence(const io::LineReader& reader) {
  if (lines_.empty()) return;
  const auto count = static_cast<int64_t>(lines_.size());
  const int64_t first = offsets_.back();
  const auto refuse = [&](int64_t word, const auto&... text) {
    const io::Origin& origin = reader.origin();
    io::fail({origin.op, c10::str(origin.path, ":", lines_[static_cast<size_t>(word)])}, text...);
  };
  const std::span<int64_t> heads(parents_.data() + first, lines_.size());
  for (int64_t w = 0; w < count; ++w) {
    const int64_t head = heads[static_cast<size_t>(w)] + 1;
    if (head > count) refuse(w, "the head must be from 0 to ", count, ", the words of the sentence, got ", head);
  }
  int64_t on_cycle = -1;
  if (!depths_of(heads, on_cycle)) refuse(on_cycle, "word ", on_cycle + 1, " must not depend on itself");
  for (int64_t& head : heads) head += head < 0 ? 0 : first;
  offsets_.push_back(first + count);
  lines_.clear();
}

ConlluReader::Range ConlluReader::add(io::LineReader& reader) {
  const auto sentences = [&] { return static_cast<int64_t>(offsets_.size()) - 1; };
  const int64_t first = sentences();
  while (reader.next()) {
    const std::string_view line = reader.line();
    if (line.find_first_not_of(" \t") == std::string_view::npos) {
      end_sentence(reader);
    } else if (line[0] != '#') {
      add_word(reader);
    }
  }
  end_sentence(reader);
  if (sentences() == first) io::fail(reader.origin(), "the file has no sentence");
  return {first, sentences()};
}

GraphSet ConlluReader::finish(const io::Origin& origin, const GraphDataOptions& options) {
  const at::Tensor parents = int64_tensor(parents_);
  GraphSet set{.graph = Graph::forest(parents),
               .offsets = int64_tensor(offsets_),
               .labels = int64_tensor(labels_),
               .node_labels = true,
               .parents = parents,
               .classes = {kPartsOfSpeech.begin(), kPartsOfSpeech.end()}};
  if (options.features == "given") {
    check_feature_size(origin, set.num_nodes(), options.ngram_features);
    set.features = ngram_features(forms_, form_end_, options.ngram_features, options.seed);
  }
  return set;
}

namespace {

/// The file of a treebank that is for training, development or testing: LANGUAGE_NAME-ud-PART.conllu.
std::string treebank_file(const io::Origin& origin, const std::string& part) {
  std::string found, packed;
  for (const auto& entry : std::filesystem::directory_iterator(origin.path)) {
    const std::string name = entry.path().filename().string();
    if (name.find("-ud-" + part) == std::string::npos) continue;
    if (name.ends_with(".conllu.xz")) packed = entry.path().string();
    if (!name.ends_with(".conllu") && !name.ends_with(".conllu.gz")) continue;
    if (!found.empty()) io::fail(origin, "two files for ", part, ", ", found, " and ", name);
    found = entry.path().string();
  }
  if (found.empty() && !packed.empty()) refuse_packed({origin.op, packed});
  if (found.empty()) io::fail(origin, "no file NAME-ud-", part, ".conllu or .conllu.gz");
  return found;
}

std::vector<int64_t> numbers_in(ConlluReader::Range range) {
  std::vector<int64_t> numbers;
  for (int64_t i = range.first; i < range.last; ++i) numbers.push_back(i);
  return numbers;
}

}  // namespace

LoadedGraphs open_conllu(const GraphDataOptions& options) {
  const io::Origin origin{kOpenGraphs, options.path};
  refuse_packed(origin);
  ConlluReader sentences;
  const auto read = [&](const std::string& path) {
    io::LineReader reader({kOpenGraphs, path});
    return sentences.add(reader);
  };
  GraphSplit split;
  if (std::filesystem::is_directory(options.path)) {
    split.train = numbers_in(read(treebank_file(origin, "train")));
    split.validation = numbers_in(read(treebank_file(origin, "dev")));
    split.test = numbers_in(read(treebank_file(origin, "test")));
  } else {
    const auto [first, last] = read(options.path);
    split = split_by_fraction(at::zeros({last - first}, at::kLong), options);
  }
  GraphSet set = sentences.finish(origin, options);
  set.name = std::filesystem::path(options.path).stem().string();
  return {std::move(set), std::move(split)};
}

}  // namespace topomask
