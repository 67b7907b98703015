#pragma once

#include <ATen/core/Tensor.h>

#include "topomask/walks.h"
#include "walks/plan.h"

namespace topomask {

/// The loads of a table of walks with uniform proposals on the CPU, as a function of the weights they were multiplied
/// from: a walk's load at hop t is a product of W_e·deg/(1 − h) over the t edges it took. The walks themselves are
/// constants. The backward pass sends the same walkers out again, since every random number is a counter: about the
/// time of sampling, with a search in the row of the table for each visit, and memory for a few sums per edge.
at::Tensor loads_of_weights(const at::Tensor& weights, const WalkPlan& plan, const WalkSteps& steps,
                            const WalkOptions& options, const WalkTable::Arrays& arrays);

}  // namespace topomask
