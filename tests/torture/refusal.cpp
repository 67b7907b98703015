#include "torture/refusal.h"

#include <algorithm>
#include <regex>

namespace topomask::torture {

bool is_row_limit(const std::string& error) {
  static const std::regex limit(
      R"(^sparse_(?:softmax_)?attention: q and v must have at most (\d{1,9}) columns of this dtype on cuda, got (\d{1,9}) and (\d{1,9})\b)");
  std::smatch found;
  if (!std::regex_search(error, found, limit)) return false;
  return std::max(std::stoll(found[2]), std::stoll(found[3])) > std::stoll(found[1]);
}

}  // namespace topomask::torture
