#include "python_bridge/objects.h"

TORCH_LIBRARY_FRAGMENT(topomask, m) {
  topomask::python::bind_graph(m);
  topomask::python::bind_walks(m);
  topomask::python::bind_forest(m);
  topomask::python::bind_mask(m);
  topomask::python::bind_functions(m);
  topomask::python::bind_clouds(m);
  topomask::python::bind_dist(m);
}
