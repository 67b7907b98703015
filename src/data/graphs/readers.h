#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/internal_api.h"
#include "io/line_reader.h"
#include "topomask/data/graph_options.h"

namespace TOPOMASK_INTERNAL_API topomask {

inline constexpr const char* kOpenGraphs = "open_graphs";

// The kinds of open_graphs. Features are left undefined where options.features is not "given": open_graphs makes them.

LoadedGraphs open_tu(const GraphDataOptions& options);
LoadedGraphs open_citation(const GraphDataOptions& options);
LoadedGraphs open_conllu(const GraphDataOptions& options);
LoadedGraphs open_wordnet(const GraphDataOptions& options);
LoadedGraphs open_graph_file(const GraphDataOptions& options);
LoadedGraphs open_motif(const GraphDataOptions& options);
LoadedGraphs open_cycle(const GraphDataOptions& options);
LoadedGraphs open_meshes(const GraphDataOptions& options);
LoadedGraphs open_radar_clouds(const GraphDataOptions& options);

/// The lines of NAME_PART.txt, or null where there is no such file: parts are A, graph_indicator, …
using TuParts = std::function<std::unique_ptr<io::LineReader>(const std::string& part)>;

/// The text files of a TU set, from wherever they are. `origin` stands for them all.
GraphSet read_tu(const io::Origin& origin, const TuParts& parts, const GraphDataOptions& options);

/// Appends the sentences of a CoNLL-U text; finish() makes the set.
class ConlluReader {
 public:
  /// The sentences that were added, as [first, last).
  struct Range {
    int64_t first, last;
  };
  Range add(io::LineReader& reader);
  GraphSet finish(const io::Origin& origin, const GraphDataOptions& options);

 private:
  void add_word(const io::LineReader& reader);
  void end_sentence(const io::LineReader& reader);

  std::vector<int64_t> offsets_{0}, parents_, labels_;
  std::vector<int64_t> lines_;     ///< of the words of this sentence
  std::string forms_;              ///< of all words, one after another
  std::vector<int64_t> form_end_;  ///< where each ends
};

/// Names a file that is packed in a way that is not read, and says how to unpack it.
void refuse_packed(const io::Origin& origin);

/// int64 tensor of a vector.
at::Tensor int64_tensor(const std::vector<int64_t>& values);

}  // namespace topomask
