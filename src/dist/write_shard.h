#pragma once

#include <string>

#include "topomask/dist.h"

namespace topomask {

/// Writes one shard, and returns its fingerprint; `op` is named in errors.
int64_t write_shard(const char* op, const Shard& shard, const std::string& folder);
/// To be written when every shard is there.
void write_index(const char* op, const ShardIndex& index, const std::string& folder);

}  // namespace topomask
