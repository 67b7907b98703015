#pragma once

#include "core/enum_names.h"
#include "topomask/walks.h"

namespace topomask {

inline constexpr EnumNames<Coupling, 4> kCouplingNames{
    {"independent", "antithetic", "repelling", "antithetic_repelling"}};
inline constexpr EnumNames<Proposal, 3> kProposalNames{{"uniform", "weights", "given"}};

}  // namespace topomask
