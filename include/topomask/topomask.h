#pragma once

// Everything: graph → mask → attention.
#include "topomask/attention.h"
#include "topomask/feature_map.h"
#include "topomask/global_tokens.h"
#include "topomask/graph.h"
#include "topomask/graph_io.h"
#include "topomask/mask.h"
#include "topomask/masks.h"
#include "topomask/planner.h"
#include "topomask/power_series.h"
#include "topomask/sparse.h"
#include "topomask/version.h"
