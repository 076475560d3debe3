#include "profiler/model/layers/model.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "profiler/base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/model_formula.h"

namespace mptune::profiler {
namespace {

TEST(Synthetic, SameSeedSameBatch) {
  SampleDescription sample;
  sample.inputs = {{.shape = {3, 5}}};
  sample.target.classes = 7;
  const auto first = synthetic_batch(sample, 6, 1);
  const auto again = synthetic_batch(sample, 6, 1);
  const auto other = synthetic_batch(sample, 6, 2);
  EXPECT_TRUE(at::equal(first.inputs[0], again.inputs[0]));
  EXPECT_TRUE(at::equal(first.target, again.target));
  EXPECT_FALSE(at::equal(first.inputs[0], other.inputs[0]));
  EXPECT_EQ(first.target.sizes(), (std::vector<std::int64_t>{6}));
  EXPECT_LT(first.target.max().item<std::int64_t>(), 7);
  sample.target.classes = 0;
  EXPECT_FALSE(synthetic_batch(sample, 4, 0).target.defined());
  EXPECT_THROW((void)synthetic_batch({}, 4, 0), Error);
  EXPECT_THROW((void)synthetic_batch(sample, 0, 0), Error);
}

TEST(Losses, AreOneNumber) {
  const auto returning = [](const at::Tensor& value) {
    return Loss::custom("mine", [value](const Tensors&, const at::Tensor&) { return value; });
  };
  EXPECT_EQ(returning(at::ones({1}))({}, {}).numel(), 1);
  EXPECT_THROW((void)returning(at::ones({0}))({}, {}), Error);
  EXPECT_THROW((void)returning(at::Tensor())({}, {}), Error);
  try {
    (void)returning(at::ones({4, 3}))({}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.problem(), "the loss is a tensor of 4x3, not a number");
    EXPECT_EQ(error.where(), "mine");
  }
}

TEST(Losses, AreMeansOverSamples) {
  const auto output = testing::fill({4, 3}, 0, 1.0);
  const auto labels = at::tensor(std::vector<std::int64_t>{0, 2, 1, 1});
  double sum = 0;
  for (std::int64_t i = 0; i < 4; ++i) sum -= at::log_softmax(output[i], 0)[labels[i].item<std::int64_t>()].item<double>();
  EXPECT_NEAR(Loss::from_name("cross_entropy")({output}, labels).item<double>(), sum / 4, 1e-6);
  EXPECT_NEAR(Loss::from_name("cross_entropy")({output}, labels.to(at::kInt)).item<double>(), sum / 4, 1e-6);
  EXPECT_NEAR(Loss::from_name("mean_square")({output}, {}).item<double>(), output.square().mean().item<double>(), 1e-7);
  EXPECT_NEAR(Loss::from_name("mse")({output}, output + 2).item<double>(), 4.0, 1e-6);
  EXPECT_THROW((void)Loss::from_name("hinge"), Error);
  EXPECT_THROW((void)Loss::mse()({output}, labels), Error);
  EXPECT_THROW((void)Loss::cross_entropy()({output}, {}), Error);
  EXPECT_EQ(testing::error_of([&] { (void)Loss::cross_entropy()({output}, labels + 7); }).problem(),
            "a target is 7, the model has 3 classes");
  EXPECT_THROW((void)Loss::cross_entropy()({output}, output.select(1, 0)), Error) << "neither classes nor their probabilities";
}

TEST(Losses, OfProbabilitiesAreTheirFormula) {
  at::manual_seed(3);
  const at::Tensor output = at::randn({4, 3, 2}), target = at::rand({4, 3, 2});
  const auto expected = [&](const at::Tensor& weights) {
    return -(at::log_softmax(output, 1) * target * weights.view({1, 3, 1})).sum().item<double>() / 8;
  };
  EXPECT_NEAR(Loss::cross_entropy()({output}, target).item<double>(), expected(at::ones({3})), 1e-6);
  const at::Tensor weights = at::tensor({1.0F, 0.5F, 2.0F});
  EXPECT_NEAR(Loss::from_name("cross_entropy:weight=1,0.5,2")({output}, target).item<double>(), expected(weights), 1e-6);
  EXPECT_EQ(Loss::cross_entropy()({output}, target.to(at::kDouble)).scalar_type(), at::kFloat);
  // Parts weigh what their samples do.
  const std::vector<double> shares = Loss::cross_entropy().weights_of_parts(target, {1, 3});
  double sum = 0;
  for (const auto& [part, first, count] : {std::tuple(0U, 0, 1), std::tuple(1U, 1, 3)})
    sum += shares[part] * Loss::cross_entropy()({output.narrow(0, first, count)}, target.narrow(0, first, count)).item<double>();
  EXPECT_NEAR(sum, expected(at::ones({3})), 1e-6);
  EXPECT_THROW((void)Loss::from_name("cross_entropy:ignore_index=0")({output}, target), Error);
  EXPECT_THROW((void)Loss::cross_entropy()({output}, target.narrow(1, 0, 2)), Error);
}

}  // namespace
}  // namespace mptune::profiler
