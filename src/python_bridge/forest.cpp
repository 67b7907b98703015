#include <ATen/ATen.h>

#include "python_bridge/objects.h"

namespace topomask::python {
namespace {

using ForestRef = Ref<Forest>;
using FunctionRef = Ref<DistanceFunction>;

DistanceFunction::Function python_function(int64_t id) {
  const auto callback = std::make_shared<const Callback>(id);
  return [callback](double x) { return (*callback)("call", {at::scalar_tensor(x, at::kDouble)}).at(0).item<double>(); };
}

}  // namespace

void bind_forest(torch::Library& m) {
  m.class_<Value<Forest>>("Forest")
      .def(torch::init([](const at::Tensor& parent, const std::optional<at::Tensor>& weights) {
        return hold(Forest(parent, or_undefined(weights)));
      }))
      .def_static("from_graph", [](const Ref<Graph>& graph) { return hold(Forest::from_graph(graph->value)); })
      .def_static("minimum_spanning_forest",
                  [](const Ref<Graph>& graph) { return hold(minimum_spanning_forest(graph->value)); })
      .def("num_trees", [](const ForestRef& self) { return self->value.num_trees(); })
      .def("parent", [](const ForestRef& self) { return self->value.parent(); })
      .def("weights", [](const ForestRef& self) { return self->value.weights(); })
      .def("distances", [](const ForestRef& self, int64_t node) { return self->value.distances(node); })
      .def("diameter", [](const ForestRef& self) { return self->value.diameter(); });
  m.class_<Value<DistanceFunction>>("DistanceFunction")
      .def_static("constant_exponential", [](double a, double b) { return hold(DistanceFunction::exponential(a, b)); })
      .def_static("exponential",
                  [](const at::Tensor& a, const std::optional<at::Tensor>& b) {
                    return hold(DistanceFunction::exponential(a, or_undefined(b)));
                  })
      .def_static("table", [](const at::Tensor& f) { return hold(DistanceFunction::table(f)); })
      .def_static("on_integers", [](int64_t id) { return hold(DistanceFunction::on_integers(python_function(id))); })
      .def_static(
          "polynomial",
          [](const std::vector<double>& coefficients) { return hold(DistanceFunction::polynomial(coefficients)); })
      .def_static("cosine", [](double omega, double phase) { return hold(DistanceFunction::cosine(omega, phase)); })
      .def_static(
          "smooth",
          [](int64_t id, double tolerance) { return hold(DistanceFunction::smooth(python_function(id), tolerance)); })
      .def_static("product", [](const FunctionRef& f,
                                const FunctionRef& g) { return hold(DistanceFunction::product(f->value, g->value)); })
      .def_static("sum", [](const FunctionRef& f,
                            const FunctionRef& g) { return hold(DistanceFunction::sum(f->value, g->value)); })
      .def("evaluate", [](const FunctionRef& self, double x) { return self->value(x); });
}

}  // namespace topomask::python
