#include "profiler/model/nn/nn.h"

#include <gtest/gtest.h>

#include <thread>

#include "profiler/base/error.h"
#include "profiler/model/layers/batch_statistics.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/model/nn/batch_norms.h"
#include "tests/support/model_formula.h"

namespace mptune::profiler {
namespace {

namespace nn = torch::nn;

// A user's module; cloning forgets the keys of the Sequential inside.
struct Inner : nn::Cloneable<Inner> {
  Inner() { reset(); }
  void reset() override {
    body =
        register_module("body", nn::Sequential({{"conv", nn::Conv2d(nn::Conv2dOptions(6, 4, 3).stride(2))}, {"bn", nn::BatchNorm2d(4)}}));
  }
  at::Tensor forward(const at::Tensor& input) { return body->forward(input); }
  nn::Sequential body{nullptr};
};

nn::Sequential convolutional_net(std::optional<double> momentum = 0.1) {
  return nn::Sequential({{"first", nn::Conv2d(nn::Conv2dOptions(3, 6, 3))},
                         {"norm", nn::BatchNorm2d(nn::BatchNorm2dOptions(6).momentum(momentum))},
                         {"activation", nn::ReLU(nn::ReLUOptions(true))},
                         {"inner", Inner()},
                         {"flat", nn::Flatten()},
                         {"fc", nn::Linear(4 * 3 * 3, 5)},
                         {"last", nn::BatchNorm1d(5)}});
}

nn::Sequential copy_of(const nn::Sequential& net) {
  return nn::Sequential(std::dynamic_pointer_cast<nn::SequentialImpl>(net->clone()));
}

// Forwards of unequal micro-batches, committed at the end as the runtime does.
void run_micro_batches(Model& model, const at::Tensor& input, const std::vector<std::int64_t>& sizes) {
  std::vector<std::vector<std::vector<BatchStatistics>>> by_layer(model.layers().size());
  std::int64_t first = 0;
  for (const auto size : sizes) {
    Tensors tensors{input.narrow(0, first, size)};
    for (std::size_t i = 0; i < model.layers().size(); ++i) {
      auto& layer = *model.layers()[i].layer;
      tensors = layer.forward(tensors, {.first_sample = first, .samples = size});
      auto taken = layer.take_statistics();
      by_layer[i].resize(taken.size());
      for (std::size_t norm = 0; norm < taken.size(); ++norm) by_layer[i][norm].push_back(std::move(taken[norm]));
    }
    first += size;
  }
  for (std::size_t i = 0; i < model.layers().size(); ++i) model.layers()[i].layer->commit_statistics(by_layer[i]);
}

void expect_equal_buffers(const Model& model, const nn::Sequential& net, double tolerance) {
  const auto ours = model.buffers();
  const auto theirs = net->buffers();
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(at::allclose(ours[i].tensor.to(at::kDouble), theirs[i].to(at::kDouble), tolerance, tolerance)) << ours[i].name;
}

TEST(FromSequential, NamesKindsAndTensors) {
  const auto net = convolutional_net();
  const auto model = from_sequential(net, Loss::cross_entropy());
  ASSERT_EQ(model.size(), 7);
  EXPECT_EQ(model.layers()[3].name, "inner");
  EXPECT_EQ(model.layers()[1].layer->kind(), "BatchNorm2d");
  EXPECT_EQ(model.layers()[2].layer->kind(), "ReLU");
  const auto parameters = model.parameters();
  const auto named = net->named_parameters();
  ASSERT_EQ(parameters.size(), named.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(parameters[i].name, named[i].key());
    EXPECT_TRUE(parameters[i].tensor.is_same(named[i].value())) << "the model trains the user's own tensors";
  }
  EXPECT_TRUE(model.layers()[3].layer->has_batch_statistics());
  EXPECT_FALSE(model.layers()[5].layer->has_batch_statistics());
}

TEST(FromSequential, OneMicroBatchLeavesWhatTorchLeaves) {
  for (const auto momentum : {std::optional(0.1), std::optional<double>(), std::optional(0.7)}) {
    const auto net = convolutional_net(momentum);
    auto reference = copy_of(net);
    auto model = from_sequential(net, Loss::cross_entropy());
    for (std::int64_t step = 0; step < 3; ++step) {
      const auto input = testing::fill({6, 3, 9, 9}, step, 1.0 + static_cast<double>(step), 0.3);
      const auto output = forward_all(model, {input}, {})[0];
      testing::commit_single(model);
      EXPECT_TRUE(at::equal(output, reference->forward(input)));
    }
    expect_equal_buffers(model, reference, 1e-6);
  }
}

// Only norms that see the input itself are comparable: later ones see what earlier ones normalised by micro-batch.
TEST(DeferredStatistics, UnequalMicroBatchesAreOneFullBatch) {
  for (const auto momentum : {std::optional(0.1), std::optional<double>()}) {
    nn::Sequential net(
        {{"first", nn::Conv2d(nn::Conv2dOptions(3, 6, 3))}, {"norm", nn::BatchNorm2d(nn::BatchNorm2dOptions(6).momentum(momentum))}});
    auto reference = copy_of(net);
    auto model = from_sequential(net, Loss::mean_square());
    for (std::int64_t step = 0; step < 2; ++step) {
      const auto input = testing::fill({11, 3, 7, 5}, step, 2.0, 1.5) * at::arange(1, 12).view({11, 1, 1, 1});
      run_micro_batches(model, input, {4, 1, 5, 1});
      (void)reference->forward(input);
    }
    expect_equal_buffers(model, reference, 2e-6);
    EXPECT_EQ(model.buffers()[2].tensor.item<std::int64_t>(), 2);
  }
}

TEST(DeferredStatistics, BatchNorm1dOfSequences) {
  nn::Sequential net({{"norm", nn::BatchNorm1d(4)}});
  auto reference = copy_of(net);
  auto model = from_sequential(net, Loss::mean_square());
  const auto input = testing::fill({7, 4, 3}, 2, 1.0, -2.0);
  run_micro_batches(model, input, {3, 2, 1, 1});
  (void)reference->forward(input);
  expect_equal_buffers(model, reference, 1e-6);
}

TEST(DeferredStatistics, BuffersRestUntilCommitAndRecomputationRecordsNothing) {
  auto model = from_sequential(nn::Sequential({{"norm", nn::BatchNorm2d(3)}}), Loss::mean_square());
  auto& layer = *model.layers()[0].layer;
  const auto input = testing::fill({4, 3, 5, 5}, 1, 1.0, 3.0);
  const auto first = layer.forward({input}, {})[0];
  EXPECT_TRUE(at::equal(model.buffers()[0].tensor, at::zeros({3})));
  EXPECT_TRUE(at::equal(model.buffers()[1].tensor, at::ones({3})));
  const auto taken = layer.take_statistics();
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].count, 100);
  EXPECT_TRUE(at::allclose(taken[0].mean, input.mean({0, 2, 3}), 1e-6, 1e-6));
  EXPECT_TRUE(at::allclose(taken[0].variance, input.transpose(0, 1).flatten(1).var(1, /*unbiased=*/true), 1e-5, 1e-6));
  const auto again = layer.forward({input}, {.recomputing = true})[0];
  EXPECT_TRUE(at::equal(first, again));
  EXPECT_TRUE(layer.take_statistics().empty());
  EXPECT_TRUE(at::equal(model.buffers()[0].tensor, at::zeros({3})));
}

TEST(DeferredStatistics, WithoutGradientsToo) {
  auto model = from_sequential(nn::Sequential({{"norm", nn::BatchNorm2d(3)}}), Loss::mean_square());
  const at::NoGradGuard no_gradients;
  (void)model.layers()[0].layer->forward({testing::fill({4, 3, 5, 5}, 1, 1.0)}, {});
  EXPECT_EQ(model.layers()[0].layer->take_statistics().at(0).count, 100);
}

TEST(DeferredStatistics, FrozenAndUntrackedNorms) {
  nn::BatchNorm2d frozen(3);
  frozen->eval();
  auto model = from_sequential(
      nn::Sequential({{"frozen", frozen}, {"untracked", nn::BatchNorm2d(nn::BatchNorm2dOptions(3).track_running_stats(false))}}),
      Loss::mean_square());
  const auto input = testing::fill({4, 3, 5, 5}, 1, 1.0);
  (void)forward_all(model, {input}, {});
  EXPECT_TRUE(model.layers()[1].layer->has_batch_statistics());
  testing::commit_single(model);
  EXPECT_TRUE(at::equal(model.buffers()[0].tensor, at::zeros({3})));
  EXPECT_EQ(model.buffers()[2].tensor.item<std::int64_t>(), 0);
}

TEST(DeferredStatistics, OneNormCalledTwiceIsRefused) {
  auto norm = std::make_shared<nn::BatchNorm1dImpl>(3);
  auto shared = layer("Twice", norm, "norm", [](nn::Module& module, const Tensors& inputs) {
    auto& self = static_cast<nn::BatchNorm1dImpl&>(module);
    return Tensors{self.forward(self.forward(inputs[0]))};
  });
  EXPECT_THROW((void)shared->forward({testing::fill({4, 3}, 1, 1.0)}, {}), Error);
  EXPECT_TRUE(at::equal(norm->running_mean, at::zeros({3})));
  EXPECT_TRUE(norm->num_batches_tracked.defined());
  EXPECT_EQ(norm->options.momentum(), std::optional(0.1));
}

TEST(DeferredStatistics, CombineEqualsTheWhole) {
  const auto values = testing::fill({9, 4}, 5, 3.0, 10.0).to(at::kDouble);
  std::vector<BatchStatistics> parts;
  std::int64_t first = 0;
  for (const std::int64_t size : {2, 4, 3}) {
    const auto part = values.narrow(0, first, size);
    parts.push_back({part.mean(0), part.var(0, true), size});
    first += size;
  }
  parts.push_back({});
  const auto whole = combine(parts);
  EXPECT_EQ(whole.count, 9);
  EXPECT_TRUE(at::allclose(whole.mean, values.mean(0), 1e-12, 1e-12));
  EXPECT_TRUE(at::allclose(whole.variance, values.var(0, true), 1e-12, 1e-12));
}

TEST(Clone, IsEqualAndIndependentAndDrawsNoNumbers) {
  auto net = convolutional_net();
  net->named_parameters()["first.bias"].set_requires_grad(false);
  auto model = from_sequential(net, Loss::cross_entropy());
  at::manual_seed(3);
  const auto undisturbed = at::rand({4});
  at::manual_seed(3);
  std::vector<ModelLayer> copies;
  for (const auto& each : model.layers()) copies.push_back({each.name, each.modules, each.layer->clone()});
  EXPECT_TRUE(at::equal(at::rand({4}), undisturbed));
  Model copy("copy", std::move(copies), model.loss(), {}, 1);
  EXPECT_EQ(copy.fingerprint(), model.fingerprint());
  ASSERT_EQ(copy.parameters().size(), model.parameters().size());
  EXPECT_EQ(copy.parameters().size(), net->parameters().size() - 1);
  for (std::size_t i = 0; i < copy.parameters().size(); ++i) {
    EXPECT_EQ(copy.parameters()[i].name, model.parameters()[i].name);
    EXPECT_FALSE(copy.parameters()[i].tensor.is_alias_of(model.parameters()[i].tensor));
  }
  const auto input = testing::fill({4, 3, 9, 9}, 1, 1.0);
  const auto labels = at::tensor(std::vector<std::int64_t>{0, 1, 2, 3});
  for (Model* each : {&model, &copy}) {
    each->loss()(forward_all(*each, {input}, {}), labels).backward();
    testing::commit_single(*each);
  }
  for (std::size_t i = 0; i < copy.parameters().size(); ++i)
    EXPECT_TRUE(at::equal(copy.parameters()[i].tensor.grad(), model.parameters()[i].tensor.grad())) << copy.parameters()[i].name;
  for (std::size_t i = 0; i < copy.buffers().size(); ++i)
    EXPECT_TRUE(at::equal(copy.buffers()[i].tensor, model.buffers()[i].tensor)) << copy.buffers()[i].name;
}

TEST(Clone, ThreadsAtOnce) {
  const auto model = load_model("resnet18", "3x64x64", 0).model;
  const auto input = testing::fill({2, 3, 64, 64}, 1, 1.0);
  std::vector<at::Tensor> outputs(2);
  std::vector<std::vector<BatchStatistics>> statistics(2);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto stem = model.layers()[0].layer->clone();
      const auto block = model.layers()[1].layer->clone();
      outputs[i] = block->forward(stem->forward({input}, {}), {})[0].detach();
      statistics[i] = block->take_statistics();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(at::equal(outputs[0], outputs[1]));
  ASSERT_EQ(statistics[0].size(), 2U);
  EXPECT_TRUE(at::equal(statistics[0][1].variance, statistics[1][1].variance));
}

TEST(InputsStayAsTheyAre, InPlaceFirstOperation) {
  auto model = from_sequential(nn::Sequential({{"relu", nn::ReLU(nn::ReLUOptions(true))}}), Loss::mean_square());
  const auto input = testing::fill({2, 3}, 1, 1.0).set_requires_grad(true);
  const auto before = input.detach().clone();
  for (int round = 0; round < 2; ++round) {
    const auto output = model.layers()[0].layer->forward({input}, {})[0];
    output.sum().backward();
    EXPECT_TRUE(at::equal(input.detach(), before));
    EXPECT_TRUE(at::equal(output.detach(), before.relu()));
  }
  const auto copy = model.layers()[0].layer->clone();
  EXPECT_TRUE(at::equal(copy->forward({input}, {})[0], before.relu()));
  EXPECT_TRUE(at::equal(input.detach(), before));
}

// A norm in front of the write is called by the attempt that autograd refuses too; its statistics count once.
TEST(InputsStayAsTheyAre, WriteBehindANorm) {
  struct Late : nn::Cloneable<Late> {
    Late() { reset(); }
    void reset() override { norm = register_module("norm", nn::BatchNorm1d(3)); }
    at::Tensor forward(at::Tensor input) {
      const at::Tensor normed = norm->forward(input);
      return input.add_(normed);
    }
    nn::BatchNorm1d norm{nullptr};
  };
  auto model = from_sequential(nn::Sequential({{"late", Late()}}), Loss::mean_square());
  const auto input = testing::fill({4, 3}, 1, 1.0).set_requires_grad(true);
  const auto before = input.detach().clone();
  Layer& layer = *model.layers()[0].layer;
  const auto first = layer.forward({input}, {})[0];
  EXPECT_EQ(layer.take_statistics()[0].count, 4);
  EXPECT_TRUE(at::equal(input.detach(), before));
  EXPECT_TRUE(at::equal(layer.forward({input}, {})[0], first));
}

// Data decide whether it writes. What was overwritten is said, and not overwritten again.
TEST(InputsStayAsTheyAre, AWriteAfterForwardsWithoutOneIsFound) {
  struct Sometimes : nn::Cloneable<Sometimes> {
    void reset() override {}
    at::Tensor forward(at::Tensor input) { return input.sum().item<float>() < 0 ? input.relu_() : input.relu(); }
  };
  auto model = from_sequential(nn::Sequential({{"sometimes", Sometimes()}}), Loss::mean_square());
  const at::NoGradGuard as_in_a_forward_that_is_recomputed;
  const auto positive = at::ones({2, 3}).set_requires_grad(true), negative = at::full({2, 3}, -1.0).set_requires_grad(true);
  const auto forward = [&](const at::Tensor& input) { return run_layer(model.layers()[0], 0, {input}, {})[0]; };
  EXPECT_TRUE(at::equal(forward(positive), positive));
  try {
    (void)forward(negative.detach().clone());
    ADD_FAILURE() << "the write was not seen";
  } catch (const Error& error) {
    EXPECT_EQ(error.problem(), "its forward wrote into its input, which earlier ones did not");
    EXPECT_EQ(error.where(), "layer sometimes");
  }
  const auto before = negative.detach().clone();
  EXPECT_TRUE(at::equal(forward(negative), at::zeros({2, 3})));
  EXPECT_TRUE(at::equal(negative.detach(), before));
}

// The graph keeps the input itself, from the first forward on, or a copy of it in its place.
TEST(InputsStayAsTheyAre, OnlyWritersPayForCopies) {
  const auto holders_after_first_forward = [](nn::Sequential net) {
    auto model = from_sequential(std::move(net), Loss::mean_square());
    const auto input = testing::fill({2, 3}, 1, 1.0).set_requires_grad(true);
    const auto output = model.layers()[0].layer->forward({input}, {})[0];
    return input.use_count();
  };
  EXPECT_GT(holders_after_first_forward(nn::Sequential({{"fc", nn::Linear(3, 2)}})),
            holders_after_first_forward(nn::Sequential({{"relu", nn::ReLU(nn::ReLUOptions(true))}})));
}

TEST(InputsStayAsTheyAre, BuiltInsTakeLeavesAtEveryCut) {
  for (const auto* text : {"mlp:layers=3", "resnet18", "transformer:d=16,layers=2,heads=2,seq=8,vocab=11"}) {
    auto model = load_model(text, std::string(text) == "resnet18" ? "3x64x64" : "", 0).model;
    Tensors tensors{synthetic_batch(model.sample(), 2, 1).inputs[0]};
    for (auto& each : model.layers()) {
      Tensors leaves;
      for (const auto& tensor : tensors)
        leaves.push_back(at::isFloatingType(tensor.scalar_type()) ? tensor.detach().clone().set_requires_grad(true) : tensor);
      const auto version = leaves[0]._version();
      (void)each.layer->forward(leaves, {});
      tensors = each.layer->forward(leaves, {.recomputing = true});
      EXPECT_EQ(leaves[0]._version(), version) << each.name;
    }
  }
}

TEST(ModelRules, SharedAndNamelessThings) {
  nn::Linear shared(3, 3);
  EXPECT_THROW((void)from_sequential(nn::Sequential({{"a", shared}, {"b", shared}}), Loss::mean_square()), Error);
  EXPECT_THROW((void)from_sequential(nn::Sequential(), Loss::mean_square()), Error);
  EXPECT_THROW((void)layer("None", nullptr, "x", [](nn::Module&, const Tensors& inputs) { return inputs; }), Error);
}

TEST(UserLayer, PrefixAndForward) {
  auto module = std::make_shared<nn::LinearImpl>(3, 2);
  const auto doubled = layer("Doubled", module, "deep.down", [](nn::Module& self, const Tensors& inputs) {
    return Tensors{static_cast<nn::LinearImpl&>(self).forward(inputs[0]) * 2, inputs[0]};
  });
  EXPECT_EQ(doubled->parameters()[0].name, "deep.down.weight");
  const auto input = testing::fill({2, 3}, 1, 1.0);
  const auto outputs = doubled->forward({input}, {});
  ASSERT_EQ(outputs.size(), 2U);
  EXPECT_TRUE(at::equal(outputs[0], at::linear(input, module->weight, module->bias) * 2));
}

}  // namespace
}  // namespace mptune::profiler
