#include "topomask/train/optimiser.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "support/compare.h"
#include "topomask/train/moving_average.h"

namespace topomask {
namespace {

/// A matrix, a vector and a mask's coefficients.
struct Model : torch::nn::Module {
  Model() {
    const auto layer = register_module("a", std::make_shared<torch::nn::Module>());
    const auto mask = register_module("mask", std::make_shared<torch::nn::Module>());
    parameters_ = {layer->register_parameter("weight", at::ones({2, 2})), register_parameter("b", at::ones({3})),
                   mask->register_parameter("f", at::ones({2}))};
  }
  std::vector<at::Tensor> parameters_;
};

void set_gradients(Model& model, double value) {
  for (at::Tensor& p : model.parameters_) p.mutable_grad() = at::full_like(p, value);
}

TEST(Optimiser, FirstStepMovesByTheLearningRateAndDecaysMatricesOnly) {
  Model model;
  TrainOptions o;
  o.weight_decay = 0.5;
  o.mask_learning_rate = 3;
  Optimiser optimiser(model, o);
  set_gradients(model, 0.01);
  EXPECT_NEAR(optimiser.step(0.1).item<double>(), 0.03, 1e-6);
  const auto p = model.named_parameters();
  EXPECT_TRUE(at::allclose(p["a.weight"], at::full({2, 2}, 1 - 0.05 - 0.1), 1e-4));
  EXPECT_TRUE(at::allclose(p["b"], at::full({3}, 0.9), 1e-4));
  EXPECT_TRUE(at::allclose(p["mask.f"], at::full({2}, 0.7), 1e-4));
  EXPECT_FALSE(p["b"].grad().defined());
}

TEST(Optimiser, ClipsTheCommonNorm) {
  Model clipped, plain;
  TrainOptions o;
  o.weight_decay = 0;
  o.optimiser = "adam";
  o.epsilon = 1;  // so that the size of a gradient shows
  Optimiser first(clipped, o);
  o.clip_norm = 0;
  Optimiser second(plain, o);
  set_gradients(clipped, 100);
  set_gradients(plain, 1.0 / 3);  // nine numbers of 1/3 have norm 1
  first.step(0.1);
  second.step(0.1);
  EXPECT_TRUE(at::allclose(clipped.parameters_[0], plain.parameters_[0], 1e-5));
}

TEST(Optimiser, GoesOnFromItsState) {
  Model straight, broken;
  const TrainOptions o;
  Optimiser a(straight, o), b(broken, o);
  for (int step = 0; step < 3; ++step) {
    set_gradients(straight, 0.1 * step + 0.1);
    a.step(1e-2);
    set_gradients(broken, 0.1 * step + 0.1);
    b.step(1e-2);
  }
  NamedTensors state;
  for (const auto& [name, tensor] : b.state()) state[name] = tensor.clone();
  Optimiser c(broken, o);
  c.restore(state);
  set_gradients(straight, 0.3);
  a.step(1e-2);
  set_gradients(broken, 0.3);
  c.step(1e-2);
  for (size_t p = 0; p < 3; ++p) EXPECT_TRUE(at::equal(straight.parameters_[p], broken.parameters_[p]));
  state.erase("first.b");
  EXPECT_ERROR(c.restore(state), "state must have first.b, got none");
  state["first.b"] = at::zeros({4});
  EXPECT_ERROR(c.restore(state), "first.b must be Float[3] on cpu, got Float[4] on cpu");
}

TEST(Optimiser, RefusesAnotherName) {
  Model model;
  TrainOptions o;
  o.optimiser = "sgd";
  EXPECT_ERROR(Optimiser(model, o), "optimiser must be adamw or adam, got sgd");
  EXPECT_ERROR(Optimiser(torch::nn::Module(), TrainOptions()), "model must have parameters, got none");
}

TEST(MovingAverage, FollowsAndExchanges) {
  Model model;
  MovingAverage average(model, 0.5);
  const at::NoGradGuard no_grad;
  for (at::Tensor& p : model.parameters_) p.fill_(3);
  average.update(0);  // decay 1/10 at first: (1 + 0)/(10 + 0)
  EXPECT_NEAR(average.state().at("b")[0].item<double>(), 0.1 * 1 + 0.9 * 3, 1e-6);
  average.update(1000);
  EXPECT_NEAR(average.state().at("b")[0].item<double>(), 0.5 * 2.8 + 0.5 * 3, 1e-6);
  average.exchange();
  EXPECT_NEAR(model.parameters_[1][0].item<double>(), 2.9, 1e-6);
  average.exchange();
  EXPECT_EQ(model.parameters_[1][0].item<double>(), 3);
  EXPECT_ERROR(average.restore({}), "got none");
  EXPECT_ERROR(MovingAverage(model, 1), "ema_decay must be in [0, 1), got 1");
  EXPECT_TRUE(MovingAverage(model, 0).state().empty());
}

}  // namespace
}  // namespace topomask
