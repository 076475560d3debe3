// What training data gives each step, against what the model takes.
#include "tuner/worker/program/training_data.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <memory>

#include "profiler/base/error.h"
#include "profiler/model/files/torch_file.h"
#include "tests/support/files.h"

namespace mptune::testing {
namespace {

/// Takes micro-batches of 4 samples at least.
class Selective final : public Layer {
 public:
  Tensors forward(const Tensors& inputs, const RunContext&) override { return {inputs.at(0) * weight_}; }
  std::vector<NamedTensor> parameters() const override { return {{"weight", weight_}}; }
  std::vector<NamedTensor> buffers() const override { return {}; }
  std::unique_ptr<Layer> clone() const override { return std::make_unique<Selective>(); }
  std::string kind() const override { return "Selective"; }
  SampleRange samples() const override { return {4, 0}; }

 private:
  at::Tensor weight_ = at::ones({3}).requires_grad_();
};

TEST(TrainingData, StepsThatTheModelDoesNotTakeAreRefusedBeforeTheFirst) {
  const TestFolder folder("training-data");
  std::vector<ModelLayer> layers;
  layers.push_back({"one", {"one"}, std::make_unique<Selective>()});
  SampleDescription sample;
  sample.inputs = {{.shape = {3}}};
  const Model model("selective", std::move(layers), Loss::mean_square(), sample, 8);
  tuner::TrainRequest request;
  request.setup.data = folder.path("data.pt");
  request.setup.batch = 8;
  request.plan.microbatch_sizes = {4, 4};
  const auto refusal = [&](int samples) {
    profiler::write_torch_file(folder.path("data.pt"), {{"input", at::rand({samples, 3})}});
    try {
      const tuner::TrainingData data(request, model);
      return std::string();
    } catch (const Error& error) {
      return error.problem();
    }
  };
  EXPECT_EQ(refusal(16), "");
  EXPECT_EQ(refusal(20), "") << "a last step of 4";
  EXPECT_THAT(refusal(18),
              ::testing::HasSubstr("the last step of an epoch has 2 samples and a micro-batch of 2, and the model takes at least 4"));
  EXPECT_THAT(refusal(21), ::testing::HasSubstr("has 5 samples and a micro-batch of 3"));
  request.drop_last = true;
  EXPECT_EQ(refusal(18), "");
  request.validation_share = 0.1;
  EXPECT_THAT(refusal(20), ::testing::HasSubstr("the last step of the validation has 2 samples"));
  request.validation_share = 0.2;
  EXPECT_EQ(refusal(20), "");
}

}  // namespace
}  // namespace mptune::testing
