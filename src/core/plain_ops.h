#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace topomask {

/// While it lives, autocast leaves tensor operations on this thread alone: a mask computes in its own dtype.
struct NoAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::autocast_dispatch_keyset};
};

/// The same, and nothing is recorded for autograd. For operations called from the threads of at::parallel_for, which do
/// not inherit the caller's modes, so that one part of a result would be made under them and another without.
struct PlainOps {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  NoAutocast no_autocast;
};

}  // namespace topomask
