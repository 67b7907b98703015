#pragma once

#include <cstdint>
#include <functional>

namespace topomask::bench {

/// The most bytes of CPU tensors alive at once during `call`, above those alive at its start. What `call` frees of
/// earlier memory is not counted back, nor is memory that libraries take past torch's allocator.
///
/// The first use wraps torch's CPU allocator. Outside this function the wrapper only passes on, so that timings do not
/// see it. One measurement at a time.
int64_t peak_bytes(const std::function<void()>& call);

}  // namespace topomask::bench
