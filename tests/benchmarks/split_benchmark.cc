// What a backward costs whole (B) and split into input gradients (I) and weight gradients (W), one after another or fused over all
// micro-batches (run_together), per model and number of micro-batches m, on one pinned thread, with LibTorch's kernels and with slow ones
// replaced:
//
//   model                     m  kernels           F      B      I      W  W fused   (I+W)/B   step/(m=1)  [quartiles]
//   resnet50 of torch::nn     4  as they are     430   1070    728    350      190      1.01         2.59  [2.55, 2.62]
//
// and a prototype's F, B, I, W, fused W (of ResNet-50 with every convolution fused, here large ones only) and ratio. Milliseconds of CPU
// time per 32 samples, medians of rounds in which all rows take turns. Arguments: rounds (default 7), part of a model's name.
#include <ATen/ATen.h>
#include <torch/torch.h>

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/device/cpu_allocator.h"
#include "profiler/device/device.h"
#include "profiler/device/list/device_list.h"
#include "profiler/model/kernels/replace_slow_kernels.h"
#include "profiler/model/layers/graph_piece.h"
#include "profiler/model/layers/split_backward.h"
#include "profiler/model/loading/load_model.h"
#include "profiler/trace/statistics/samples.h"

namespace mptune::testing {
namespace {

constexpr int kBatch = 32;
constexpr int kWarmUp = 1;

/// Milliseconds per 32 samples.
struct Reference {
  std::string model;
  int microbatches;
  bool replaced;
  double forward, backward, input, weight, fused;
};

// Medians of 7 rounds of a prototype, LibTorch 2.11, one pinned thread of an AMD EPYC (Zen 5, 2 vCPU). 0: not measured.
const std::vector<Reference> kReference{
    {"transformer", 1, false, 314, 638, 366, 278, 278}, {"transformer", 2, false, 319, 641, 361, 283, 281},
    {"transformer", 4, false, 321, 650, 367, 288, 278}, {"transformer", 8, false, 323, 657, 368, 289, 280},
    {"resnet50", 1, false, 202, 371, 207, 175, 173},    {"resnet50", 2, false, 215, 410, 217, 208, 184},
    {"resnet50", 4, false, 428, 1072, 727, 351, 188},   {"resnet50", 8, false, 471, 1189, 777, 451, 183},
    {"resnet50", 4, true, 243, 510, 244, 275, 176},     {"resnet50", 8, true, 288, 680, 304, 399, 178},
};

const Reference* reference_of(const std::string& model, int microbatches, bool replaced) {
  for (const Reference& row : kReference)
    if (row.model == model && row.microbatches == microbatches && row.replaced == replaced) return &row;
  return nullptr;
}

/// torchvision's Bottleneck with convolutions as a user writes them.
struct PlainBottleneckImpl : torch::nn::Module {
  PlainBottleneckImpl(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1(register_module("conv1", conv(in, width, 1, 1))),
        conv2(register_module("conv2", conv(width, width, 3, stride))),
        conv3(register_module("conv3", conv(width, 4 * width, 1, 1))),
        bn1(register_module("bn1", torch::nn::BatchNorm2d(width))),
        bn2(register_module("bn2", torch::nn::BatchNorm2d(width))),
        bn3(register_module("bn3", torch::nn::BatchNorm2d(4 * width))) {
    if (stride == 1 && in == 4 * width) return;
    downsample = register_module("downsample", torch::nn::Sequential(conv(in, 4 * width, 1, stride), torch::nn::BatchNorm2d(4 * width)));
  }
  static torch::nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t window, std::int64_t stride) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, window).stride(stride).padding(window / 2).bias(false));
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = bn1->forward(conv1->forward(input)).relu_();
    x = bn2->forward(conv2->forward(x)).relu_();
    x = bn3->forward(conv3->forward(x));
    return (x + (downsample.is_empty() ? input : downsample->forward(input))).relu_();
  }
  torch::nn::Conv2d conv1, conv2, conv3;
  torch::nn::BatchNorm2d bn1, bn2, bn3;
  torch::nn::Sequential downsample{nullptr};
};
TORCH_MODULE(PlainBottleneck);

torch::nn::Sequential plain_resnet50() {
  torch::nn::Sequential net(PlainBottleneckImpl::conv(3, 64, 7, 2), torch::nn::BatchNorm2d(64), torch::nn::ReLU(),
                            torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1)));
  std::int64_t in = 64, width = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int i = 0; i < blocks; ++i) {
      net->push_back(PlainBottleneck(in, width, i == 0 && width > 64 ? 2 : 1));
      in = 4 * width;
    }
    width *= 2;
  }
  net->push_back(torch::nn::AdaptiveAvgPool2d(1));
  net->push_back(torch::nn::Flatten());
  net->push_back(torch::nn::Linear(2048, 1000));
  return net;
}

struct Subject {
  std::string name;
  std::string reference;
  Batch batch;
  Tensors parameters;
  std::function<at::Tensor(const Batch&)> loss;
};

Subject of_mptune(const std::string& text, const std::string& input, const std::string& name, const std::string& reference) {
  const auto model = std::make_shared<Model>(load_model(text, input, 0).model);
  Subject subject{name, reference, synthetic_batch(model->sample(), kBatch, 0), {}, {}};
  for (const NamedTensor& parameter : model->parameters()) subject.parameters.push_back(parameter.tensor);
  subject.loss = [model](const Batch& microbatch) {
    RunContext context;
    context.samples = microbatch.inputs[0].size(0);
    const Tensors outputs = forward_all(*model, microbatch.inputs, context);
    for (ModelLayer& layer : model->layers()) (void)layer.layer->take_statistics();
    return model->loss()(outputs, microbatch.target);
  };
  return subject;
}

Subject of_torch_nn() {
  auto net = plain_resnet50();
  const Batch batch{{at::randn({kBatch, 3, 64, 64})}, at::randint(1000, {kBatch})};
  return {"resnet50 of torch::nn", "resnet50", batch, net->parameters(),
          [net](const Batch& microbatch) mutable { return at::cross_entropy_loss(net->forward(microbatch.inputs[0]), microbatch.target); }};
}

struct Row {
  const Subject* subject;
  int microbatches;
  bool replaced;
  std::vector<double> forward, backward, input, weight, fused;  ///< milliseconds by round

  [[nodiscard]] double step(std::size_t round) const { return forward[round] + backward[round]; }
};

/// CPU time of this thread, which does all the work: other programs on the machine disturb it less than a clock [ms].
double thread_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

double milliseconds_since(double& last) {
  const double now = thread_milliseconds();
  return now - std::exchange(last, now);
}

enum class Backward { whole, split, fused };

/// Runs the weight gradients of all micro-batches, each weight's together. Every entry holds those of one micro-batch.
void run_fused(std::vector<profiler::WeightGradients> by_microbatch) {
  for (std::size_t w = 0; w < by_microbatch.front().size(); ++w) {
    profiler::WeightGradients together;
    for (profiler::WeightGradients& gradients : by_microbatch) together.push_back(std::move(gradients[w]));
    profiler::run_together(together);
  }
}

/// Adds the times of one step; forward only once, with whole backwards, input gradients only with single weight gradients.
void run_step(Row& row, Backward kind) {
  const profiler::ReplaceSlowKernels kernels(row.replaced);
  for (at::Tensor parameter : row.subject->parameters) parameter.mutable_grad().reset();
  double forward = 0, backward = 0, weight = 0;
  std::vector<profiler::WeightGradients> left;
  const std::int64_t size = kBatch / row.microbatches;
  for (int m = 0; m < row.microbatches; ++m) {
    const Batch microbatch = samples_of(row.subject->batch, m * size, size);
    double last = thread_milliseconds();
    at::Tensor loss = row.subject->loss(microbatch);
    profiler::GraphPiece piece;
    profiler::set_roots(piece, {loss});
    const at::Tensor gradient = at::full_like(loss, 1.0 / row.microbatches);
    loss.reset();
    forward += milliseconds_since(last);
    profiler::WeightGradients weights;
    if (kind != Backward::whole) weights = profiler::set_weights_aside(piece);
    (void)profiler::backward_through(std::move(piece), {gradient});
    backward += milliseconds_since(last);
    if (kind == Backward::fused) {
      left.push_back(std::move(weights));
      continue;
    }
    for (const auto& later : weights) later->run();
    weights.clear();
    weight += milliseconds_since(last);
  }
  if (kind == Backward::fused) {
    double last = thread_milliseconds();
    run_fused(std::move(left));
    row.fused.push_back(milliseconds_since(last));
    return;
  }
  const bool split = kind == Backward::split;
  if (!split) row.forward.push_back(forward);
  (split ? row.input : row.backward).push_back(backward);
  if (split) row.weight.push_back(weight);
}

double median_of(const std::vector<double>& values) {
  return median(samples_of(values));
}

/// Of the rows' steps in each round, which share the machine's state.
std::vector<double> ratios(const Row& row, const Row& base) {
  std::vector<double> result;
  for (std::size_t i = 0; i < row.forward.size(); ++i) result.push_back(row.step(i) / base.step(i));
  std::sort(result.begin(), result.end());
  return result;
}

void print(const Row& row, const Row& base) {
  const auto ratio = ratios(row, base);
  const auto quantile = [&](double q) { return ratio[static_cast<std::size_t>(q * static_cast<double>(ratio.size() - 1) + 0.5)]; };
  const double b = median_of(row.backward), i = median_of(row.input), w = median_of(row.weight);
  std::printf("%-24s %2d  %-12s %6.0f %6.0f %6.0f %6.0f %8.0f   %7.2f   %9.2f  [%.2f, %.2f]", row.subject->name.c_str(), row.microbatches,
              row.replaced ? "replaced" : "as they are", median_of(row.forward), b, i, w, median_of(row.fused), (i + w) / b, quantile(0.5),
              quantile(0.25), quantile(0.75));
  const Reference* known = reference_of(row.subject->reference, row.microbatches, row.replaced);
  const Reference* whole = reference_of(row.subject->reference, 1, false);
  if (known != nullptr)
    std::printf("   %4.0f %4.0f %4.0f %4.0f %4.0f %.2f", known->forward, known->backward, known->input, known->weight, known->fused,
                (known->forward + known->backward) / (whole->forward + whole->backward));
  std::printf("\n");
}

int run(int rounds, const std::string& only) {
  const auto device = make_device(parse_device("cpu:" + std::to_string(available_cores()[0])));
  const auto binding = device->bind_compute();
  std::vector<Subject> subjects;
  subjects.push_back(of_mptune("transformer:d=256,layers=8,seq=64", "", "transformer", "transformer"));
  subjects.push_back(of_torch_nn());
  subjects.push_back(of_mptune("resnet50", "3x64x64", "resnet50, built in", "resnet50"));
  std::vector<Row> rows;
  for (const Subject& subject : subjects) {
    if (subject.name.find(only) == std::string::npos) continue;
    for (const bool replaced : {false, true})
      for (const int m : {1, 2, 4, 8}) rows.push_back({&subject, m, replaced, {}, {}, {}, {}, {}});
  }
  for (int round = 0; round < rounds + kWarmUp; ++round) {
    for (Row& row : rows)
      for (const Backward kind : {Backward::whole, Backward::split, Backward::fused}) run_step(row, kind);
    if (round >= kWarmUp) continue;
    for (Row& row : rows)
      for (auto* times : {&row.forward, &row.backward, &row.input, &row.weight, &row.fused}) times->clear();
  }
  std::printf("%-24s %2s  %-12s %6s %6s %6s %6s %8s   %7s   %9s  %-12s   %s\n", "model", "m", "kernels", "F", "B", "I", "W", "W fused",
              "(I+W)/B", "step/(m=1)", "[quartiles]", "reference: F B I W, W fused, step/(m=1)");
  const Row* base = nullptr;
  for (const Row& row : rows) {
    if (row.microbatches == 1 && !row.replaced) base = &row;
    print(row, *base);
  }
  return 0;
}

}  // namespace
}  // namespace mptune::testing

int main(int argc, char** argv) {
  mptune::install_cpu_accounting();
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  return mptune::testing::run(rounds > 0 ? rounds : 7, argc > 2 ? argv[2] : "");
}
