#include "topomask/nn/local_layer.h"

namespace topomask {
namespace {

const LocalLayerRegistration kNone("none", [](const PointModelOptions&) { return nullptr; });

}  // namespace
}  // namespace topomask
