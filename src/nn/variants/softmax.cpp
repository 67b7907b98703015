#include "topomask/nn/variants.h"

namespace topomask {
namespace {

const VariantRegistration kSoftmax("softmax",
                                   [](const VariantSetting&) { return std::make_shared<SoftmaxAttention>(); });

}  // namespace
}  // namespace topomask
