#include "python_bridge/objects.h"
#include "topomask/neighbour_walks.h"

namespace topomask::python {

void bind_clouds(torch::Library& m) {
  using Walks = Ref<NeighbourWalks>;
  m.class_<Value<NeighbourWalks>>("NeighbourWalks")
      .def_static("make",
                  [](const at::Tensor& neighbours, int64_t hops) { return hold(NeighbourWalks(neighbours, hops)); })
      .def_static("takes",
                  [](int64_t walkers, int64_t k, int64_t hops) { return NeighbourWalks::takes(walkers, k, hops); })
      .def_static("cloud_neighbours", [](const at::Tensor& points, int64_t k) { return cloud_neighbours(points, k); })
      .def_static("cloud_graph", [](const at::Tensor& neighbours) { return hold(cloud_graph(neighbours)); })
      .def_static("symmetric_cloud_graph",
                  [](const at::Tensor& neighbours) { return hold(symmetric_cloud_graph(neighbours)); })
      .def("columns", [](const Walks& self) { return self->value.columns(); })
      .def("values", [](const Walks& self, const at::Tensor& f) { return self->value.values(f); })
      .def("dense", [](const Walks& self, const at::Tensor& f) { return self->value.dense(f); })
      .def("attention",
           [](const Walks& self, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& f,
              double eps) { return once("neighbour_attention", neighbour_attention(q, k, v, self->value, f, eps)); });
}

}  // namespace topomask::python
