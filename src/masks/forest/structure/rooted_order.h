#pragma once

#include <cstdint>
#include <vector>

#include "core/internal_api.h"

namespace TOPOMASK_INTERNAL_API topomask {

/// The nodes of a rooted forest in an order that makes tree passes plain loops, whatever the depth.
///
/// Entry i is node[i], which hangs from parent[i] (a node, or −1). Going down the entries, a parent comes before its
/// children; so a pass towards the roots goes through the entries backwards. The entries come in segments: whole
/// subtrees without an edge between two segments, then the crown, which joins them. Towards the roots the segments go
/// first, in parallel, then the crown; away from them the other way round. Every node meets its children in one order,
/// whatever the segments are.
struct RootedOrder {
  std::vector<int32_t> node;
  std::vector<int32_t> parent;
  std::vector<int32_t> parent_entry;  ///< the entry of parent[i], or −1
  bool scattered = false;             ///< whether entries next to each other are mostly nodes far from each other
  std::vector<int64_t> segments;  ///< segment s is segments[s] … segments[s+1]−1; the crown comes after the last

  // The same forest in preorder: place p holds preorder[p], whose subtree is p … p+subtree[p]−1.
  std::vector<int32_t> preorder;
  std::vector<int32_t> preorder_parent;  ///< a place, or −1
  std::vector<int32_t> subtree;

  // Children of node v, in preorder: children[child_offset[v]] … children[child_offset[v+1]−1].
  std::vector<int32_t> child_offset;
  std::vector<int32_t> children;

  int64_t size() const { return static_cast<int64_t>(node.size()); }
  int64_t crown() const { return segments.back(); }
  int64_t num_segments() const { return static_cast<int64_t>(segments.size()) - 1; }
};

/// parent [nodes], −1 at roots. A cycle is an error that names a node on it. O(N).
RootedOrder make_rooted_order(const int32_t* parent, int64_t nodes);

}  // namespace topomask
