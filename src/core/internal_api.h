#pragma once

#include "topomask/export.h"

/// Opens the namespace of a header of src/ whose functions the project's other programs call: the models, the tool,
/// tests. Such headers are not installed, and what they declare may change at any time.
#define TOPOMASK_INTERNAL_API TOPOMASK_API
