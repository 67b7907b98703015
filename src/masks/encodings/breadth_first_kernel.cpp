#include "masks/encodings/breadth_first_kernel.h"

#include <algorithm>
#include <bit>

namespace topomask {
namespace {

/// Sends the searches of the frontier along its edges, to nodes that they have not seen; how many nodes they touch.
int64_t expand(const BreadthFirstArgs& args, const BreadthFirstWorkspace& w, int64_t active) {
  int64_t touched = 0;
  for (int64_t a = 0; a < active; ++a) {
    const int32_t node = w.active[a];
    const uint64_t searches = w.frontier[node];
    w.frontier[node] = 0;
    for (int64_t e = args.offsets[node]; e < args.offsets[node + 1]; ++e) {
      const int32_t neighbour = args.columns[e];
      const uint64_t arriving = searches & ~w.seen[neighbour];
      w.touched[touched] = neighbour;  // overwritten unless it counts, which is cheaper than a branch
      touched += arriving != 0 && w.next[neighbour] == 0;
      w.next[neighbour] |= arriving;
    }
  }
  return touched;
}

}  // namespace

void breadth_first_rows(const BreadthFirstArgs& args, const BreadthFirstWorkspace& w, int64_t first, int64_t count) {
  int32_t* rows = args.distances + first * args.nodes;
  std::fill_n(rows, count * args.nodes, -1);
  for (int64_t s = 0; s < count; ++s) {
    const int64_t source = first + s;
    rows[s * args.nodes + source] = 0;
    w.seen[source] = w.frontier[source] = uint64_t{1} << s;
    w.active[s] = static_cast<int32_t>(source);
  }
  int32_t level = 0;
  for (int64_t active = count; active > 0;) {
    ++level;
    active = expand(args, w, active);
    for (int64_t t = 0; t < active; ++t) {
      const int32_t node = w.active[t] = w.touched[t];
      uint64_t arrived = w.frontier[node] = w.next[node];
      w.next[node] = 0;
      w.seen[node] |= arrived;
      for (; arrived != 0; arrived &= arrived - 1) rows[std::countr_zero(arrived) * args.nodes + node] = level;
    }
  }
  std::fill_n(w.seen, args.nodes, 0);
}

}  // namespace topomask
