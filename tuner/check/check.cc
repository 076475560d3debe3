#include "tuner/check/check.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/device/list/device_list.h"
#include "profiler/model/exported/arguments.h"
#include "profiler/model/layers/autocast_scope.h"
#include "profiler/model/layers/in_memory_format.h"
#include "tuner/check/check_limits.h"
#include "tuner/check/check_operation.h"
#include "tuner/check/compared_tensors.h"
#include "tuner/runtime/pipeline.h"

namespace mptune::tuner {
namespace {

std::string sizes_text(const std::vector<int>& sizes) {
  const bool equal = std::adjacent_find(sizes.begin(), sizes.end(), std::not_equal_to<>()) == sizes.end();
  std::string text = std::to_string(sizes.size()) + (sizes.size() == 1 ? " micro-batch of " : " micro-batches of ");
  if (equal) return text + std::to_string(sizes.front());
  for (std::size_t i = 0; i < sizes.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  return text;
}

double least_scale_of(const std::vector<NamedTensor>& gradients) {
  double largest = 0;
  for (const NamedTensor& gradient : gradients)
    if (gradient.tensor.defined() && gradient.tensor.numel() > 0)
      if (const double most = gradient.tensor.abs().max().item<double>(); std::isfinite(most)) largest = std::max(largest, most);
  return kLeastGradientScale * largest;
}

at::Tensor find(const std::vector<NamedTensor>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const NamedTensor& named) { return named.name == name; });
  return found == tensors.end() ? at::Tensor() : found->tensor;
}

/// Adds gradients from the last layer that uses a parameter back to the first: the order of backward.
void add_gradients(ComparedTensors& compared, const Model& model, const std::vector<NamedTensor>& ours,
                   const std::vector<NamedTensor>& theirs) {
  const double least_scale = least_scale_of(theirs);
  std::set<std::string> seen;
  for (int i = model.size() - 1; i >= 0; --i) {
    const ModelLayer& layer = model.layers()[as_index(i)];
    for (const NamedTensor& parameter : layer.layer->parameters()) {
      if (!seen.insert(parameter.name).second) continue;
      const std::optional<profiler::ExportedRange> range = profiler::exported_range(*layer.layer);
      const CheckDifference where{"gradient of " + parameter.name, i, layer.name, range ? reader_of(*range, parameter.name) : "", 0};
      compared.add(where, find(ours, parameter.name), find(theirs, parameter.name), least_scale);
    }
  }
}

void add_buffers(ComparedTensors& compared, const Model& model, const std::vector<NamedTensor>& ours,
                 const std::vector<NamedTensor>& theirs) {
  for (int i = 0; i < model.size(); ++i) {
    const ModelLayer& layer = model.layers()[as_index(i)];
    for (const NamedTensor& buffer : layer.layer->buffers())
      compared.add({"buffer " + buffer.name, i, layer.name, "", 0}, find(ours, buffer.name), find(theirs, buffer.name));
  }
}

void add_outputs(ComparedTensors& compared, const Model& model, const std::vector<Tensors>& ours, const std::vector<Tensors>& theirs) {
  for (std::size_t i = 0; i < ours.size() && i < theirs.size(); ++i)
    for (std::size_t k = 0; k < ours[i].size() && k < theirs[i].size(); ++k)
      compared.add({"output", static_cast<int>(i), model.layers()[i].name, "", 0, true}, ours[i][k], theirs[i][k]);
}

/// Returns the allowed difference between sums in different orders. It is larger where parts of the model use half precision.
double tolerance_of(const Model& model, const std::vector<Tensors>& outputs) {
  double epsilon = 0;
  for (const NamedTensor& parameter : model.parameters()) epsilon = std::max(epsilon, epsilon_of(parameter.tensor.scalar_type()));
  for (const Tensors& tensors : outputs)
    for (const at::Tensor& tensor : tensors) epsilon = std::max(epsilon, epsilon_of(tensor.scalar_type()));
  epsilon = std::max(epsilon, epsilon_of(profiler::computed_type(model.layers().front().precision)));
  if (const auto range = profiler::exported_range(*model.layers().front().layer))
    epsilon = std::max(epsilon, epsilon_of(range->program->program.graph));
  return std::max(kCheckTolerance, 8 * epsilon);
}

/// Returns the rows of a whole-batch tensor that belong to `count` samples from `first` on, or the tensor itself if dimension 0 is not the
/// samples.
at::Tensor share_of(const at::Tensor& tensor, std::int64_t total, std::int64_t first, std::int64_t count) {
  if (tensor.dim() == 0 || tensor.size(0) % total != 0) return tensor;
  const std::int64_t each = tensor.size(0) / total;
  return tensor.narrow(0, first * each, count * each);
}

/// Makes CPU devices under the plan's names, with one core each: comparing numbers does not need the plan's devices.
std::vector<std::shared_ptr<Device>> core_devices(const Plan& plan) {
  const std::vector<int> cores = available_cores();
  std::vector<std::shared_ptr<Device>> devices;
  for (std::size_t i = 0; i < plan.devices.size(); ++i) {
    DeviceSpec spec;
    spec.name = plan.devices[i];
    spec.cores = {cores[i % cores.size()]};
    devices.push_back(make_device(spec));
  }
  return devices;
}

/// Return the model and the batch as a plan's pipeline gets them.
Model in_format(const Model& model, MemoryFormat format) {
  std::vector<ModelLayer> layers = cloned_layers(model);
  profiler::to_memory_format(layers, format);
  return {model.name(), std::move(layers), model.loss(), model.sample(), model.default_batch()};
}

Batch in_format(Batch batch, MemoryFormat format) {
  for (at::Tensor& input : batch.inputs) input = profiler::in_memory_format(input, format);
  return batch;
}

bool has_no_number(const at::Tensor& tensor) {
  return tensor.defined() && at::isFloatingType(tensor.scalar_type()) && tensor.isnan().any().item<bool>();
}

// Without this check, the pieces and the whole model would agree on a loss that is not a number, although nothing can be trained.
void require_finite_loss(const Model& model, const StepRecord& step) {
  if (std::isfinite(step.loss.item<double>())) return;
  const auto first = std::ranges::find_if(step.outputs, [](const Tensors& outputs) { return std::ranges::any_of(outputs, has_no_number); });
  const bool found = first != step.outputs.end();
  throw Error(found ? "the loss is not finite, and this layer is the first whose output is not a number (NaN)" : "the loss is not finite",
              found ? model.layers()[as_index(first - step.outputs.begin())].name : model.name(),
              "correct the model, or give data that it can take with --data", ExitCode::infeasible);
}

CheckPart again_part() {
  return {.name = "again",
          .compared = "every layer's output with that of a second run on the same input",
          .tolerance = kCheckTolerance,
          .remedy =
              "let a layer compute from its inputs and parameters alone: without state of its own, without random numbers other than "
              "dropout's; otherwise nothing can be recomputed or split"};
}

CheckPart pieces_part() {
  return {.name = "pieces",
          .compared = "every layer as a piece of its own with the whole model: outputs, loss, gradients, buffers",
          .tolerance = kCheckTolerance,
          .remedy = "let layers share nothing but the tensors that they hand on and their parameters; if they do not, report this model"};
}

constexpr const char* kWithWholeBatch = " with the whole batch: loss, gradients";
constexpr const char* kSamplesAlone = "let each sample be computed by itself, and the loss be a mean over the samples";
constexpr const char* kSamplesAloneOrNamedLoss =
    "let each sample be computed by itself, and the loss be a mean over the samples; where it is a mean over what counts (padding, class "
    "weights), leave it out of the program and give --loss cross_entropy:ignore_index=..:weight=..";
constexpr int kMostAlone = 8;     // samples that are each run alone
constexpr int kAloneOfLarge = 4;  // the number for a larger batch, whose other samples are run together

bool loss_is_of_the_model(const Model& model) {
  return !model.loss().choice();
}

/// Returns further ways to split the batch. Samples that influence each other may do so equally in micro-batches of one size: for example,
/// routing may happen to be as balanced in every half as in the whole. So samples run alone, and in parts of unequal size.
std::vector<std::vector<int>> further_splits(const std::vector<int>& asked, const SampleRange& samples) {
  const int batch = std::accumulate(asked.begin(), asked.end(), 0);
  std::vector<std::vector<int>> splits;
  if (batch <= kMostAlone) {
    splits.emplace_back(as_index(batch), 1);
    splits.push_back({1, batch - 1});
  } else {
    splits.emplace_back(as_index(kAloneOfLarge), 1).push_back(batch - kAloneOfLarge);
  }
  if (samples.least > 1 && batch > samples.least) splits.push_back({samples.least, batch - samples.least});
  const auto is_taken = [&](int size) { return samples.takes(size); };
  std::erase_if(splits, [&](const std::vector<int>& split) { return split == asked || !std::ranges::all_of(split, is_taken); });
  const auto again = std::ranges::unique(splits);
  splits.erase(again.begin(), again.end());
  return splits;
}

/// Joins two comparisons that both agree into one part.
CheckPart joined(CheckPart all, CheckPart more) {
  if (more.difference || !more.left_out.empty()) return more;
  const std::string end = kWithWholeBatch;
  all.compared.replace(all.compared.size() - end.size(), end.size(), "; " + more.compared);
  all.tensors += more.tensors;
  all.bit_equal += more.bit_equal;
  if (more.largest > all.largest) {
    all.largest = more.largest;
    all.largest_at = std::move(more.largest_at);
  }
  return all;
}

}  // namespace

ModelCheck::ModelCheck(const Model& model, Batch batch, std::uint64_t seed) : model_(model), batch_(std::move(batch)), seed_(seed) {}

const StepRecord& ModelCheck::whole() {
  if (!whole_) {
    whole_ = whole_step(model_, batch_, {static_cast<int>(batch_.inputs.at(0).size(0))}, seed_);
    require_finite_loss(model_, *whole_);
  }
  return *whole_;
}

RunContext ModelCheck::context() const {
  RunContext context;
  context.seed = seed_;
  context.samples = batch_.inputs.at(0).size(0);
  return context;
}

std::optional<profiler::ExportedRange> ModelCheck::range_of(int layer) const {
  return layer < 0 ? std::nullopt : profiler::exported_range(*model_.layers()[as_index(layer)].layer);
}

void ModelCheck::name_operation_of_again(CheckDifference& difference, const Tensors& inputs) const {
  const auto range = range_of(difference.layer);
  if (!range) return;
  const at::NoGradGuard no_gradients;
  const std::vector<ModelLayer> layers = cloned_layers(model_);
  const ModelLayer& layer = layers[as_index(difference.layer)];
  WatchedNodes first(*range), second(*range);
  RunContext running = context();
  running.recomputed = true;
  profiler::observe_nodes(*layer.layer, first.observer());
  (void)run_layer(layer, difference.layer, inputs, running);
  running.recomputed = false;
  running.recomputing = true;
  profiler::observe_nodes(*layer.layer, second.observer());
  (void)run_layer(layer, difference.layer, inputs, running);
  difference.operation = first.first_difference(second, kCheckTolerance);
}

void ModelCheck::name_operation_of_piece(CheckDifference& difference, const Tensors& inputs) const {
  const auto range = range_of(difference.layer);
  if (!range || !difference.is_output) return;
  const at::NoGradGuard no_gradients;
  WatchedNodes in_whole(*range), in_piece(*range);
  (void)WholeModel(model_).forward(batch_.inputs, context(), nullptr, in_whole.observer());
  const std::vector<ModelLayer> layers = cloned_layers(model_);
  const ModelLayer& layer = layers[as_index(difference.layer)];
  profiler::observe_nodes(*layer.layer, in_piece.observer());
  (void)run_layer(layer, difference.layer, inputs, context());
  difference.operation = in_piece.first_difference(in_whole, kCheckTolerance);
}

std::vector<CheckPart> ModelCheck::pieces() {
  const PiecewiseStep step = piecewise_step(model_, batch_, seed_);
  ComparedTensors again(again_part());
  add_outputs(again, model_, step.again, step.record.outputs);
  if (auto& difference = again.part().difference) name_operation_of_again(*difference, step.inputs[as_index(difference->layer)]);

  ComparedTensors pieces(pieces_part());
  add_outputs(pieces, model_, step.record.outputs, whole().outputs);
  pieces.add({"loss", -1, "", "", 0}, step.record.loss, whole().loss);
  add_gradients(pieces, model_, step.record.gradients, whole().gradients);
  add_buffers(pieces, model_, step.record.buffers, whole().buffers);
  if (auto& difference = pieces.part().difference; difference && difference->layer >= 0)
    name_operation_of_piece(*difference, step.inputs[as_index(difference->layer)]);
  return {again.part(), pieces.part()};
}

std::optional<CheckDifference> ModelCheck::first_layer_that_couples(const std::vector<int>& sizes, double tolerance) {
  const at::NoGradGuard no_gradients;
  RunContext running = context();
  const std::int64_t total = running.samples;
  for (const int size : sizes) {
    running.samples = size;
    const auto part_of = [&](const at::Tensor& tensor) { return share_of(tensor, total, running.first_sample, size); };
    const Tensors inputs = samples_of(batch_.inputs, running.first_sample, size);
    std::vector<Tensors> outputs;
    (void)WholeModel(model_).forward(inputs, running, &outputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      for (std::size_t k = 0; k < outputs[i].size(); ++k) {
        const at::Tensor expected = part_of(whole().outputs[i][k]);
        if (expected.sizes() != outputs[i][k].sizes()) continue;
        CheckDifference found{"output", static_cast<int>(i), model_.layers()[i].name, "", relative_difference(outputs[i][k], expected),
                              true};
        if (found.relative <= tolerance) continue;
        if (const auto range = range_of(found.layer)) {
          WatchedNodes of_batch(*range), of_part(*range);
          (void)WholeModel(model_).forward(batch_.inputs, context(), nullptr, of_batch.observer());
          (void)WholeModel(model_).forward(inputs, running, nullptr, of_part.observer());
          found.operation = of_batch.first_difference(of_part, tolerance, part_of);
        }
        // A scalar, such as a loss, differs from part to part anyway; the tensors that it is computed from show whether samples couple.
        if (expected.dim() == 0 && found.operation.empty()) continue;
        return found;
      }
    }
    ++running.microbatch;
    running.first_sample += size;
  }
  return std::nullopt;
}

CheckPart ModelCheck::microbatches(const std::vector<int>& sizes, const std::function<bool()>& has_time) {
  CheckPart about{.name = "microbatches", .compared = sizes_text(sizes) + kWithWholeBatch};
  about.remedy = loss_is_of_the_model(model_) ? kSamplesAloneOrNamedLoss : kSamplesAlone;
  if (sizes.size() == 1) {
    about.left_out = model_.samples() == SampleRange{} ? "there is one micro-batch; give --batch and --microbatches"
                                                       : "no batch that the model takes at once is of several micro-batches that it takes";
    return about;
  }
  for (const ModelLayer& layer : model_.layers()) {
    if (!layer.layer->has_batch_statistics()) continue;
    about.left_out = "batch norms couple the samples of a micro-batch (" + layer.name + ")";
    return about;
  }
  about.tolerance = tolerance_of(model_, whole().outputs);
  CheckPart all = microbatches_of(sizes, about);
  std::string refused;
  for (const std::vector<int>& further : further_splits(sizes, model_.samples())) {
    if (all.difference || !all.left_out.empty() || (has_time && !has_time())) break;
    try {
      CheckPart more = microbatches_of(further, about);  // computed before joining: if it throws, `all` stays
      all = joined(std::move(all), std::move(more));
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error&) {
      refused = sizes_text(further);
    } catch (const Error&) {
      refused = sizes_text(further);
    }
  }
  if (!refused.empty() && !all.difference) all.compared += "; the model fails on " + refused;
  return all;
}

ComparedTensors ModelCheck::compared_with_whole(const StepRecord& step, const CheckPart& about) {
  ComparedTensors compared(about);
  compared.add({"loss", -1, "", "", 0}, step.loss, whole().loss);
  add_gradients(compared, model_, step.gradients, whole().gradients);
  return compared;
}

CheckPart ModelCheck::microbatches_of(const std::vector<int>& sizes, CheckPart about) {
  about.compared = sizes_text(sizes) + kWithWholeBatch;
  ComparedTensors compared = compared_with_whole(whole_step(model_, batch_, sizes, seed_), about);
  if (!compared.differs()) return compared.part();
  if (const std::string writer = writer_that_explains(sizes, about); !writer.empty()) {
    about.left_out =
        writer + " once a micro-batch, as PyTorch's gradient accumulation does: micro-batches train otherwise than the whole batch";
    return about;
  }
  if (const auto layer = first_layer_that_couples(sizes, about.tolerance)) compared.part().difference = *layer;
  return compared.part();
}

std::string ModelCheck::writer_that_explains(const std::vector<int>& sizes, const CheckPart& about) {
  const auto writer = std::ranges::find_if(model_.layers(), [](const ModelLayer& layer) { return !layer.layer->written_buffer().empty(); });
  if (writer == model_.layers().end()) return "";
  const StepRecord sum = whole_step(model_, batch_, sizes, seed_, Buffers::of_the_model);
  return compared_with_whole(sum, about).differs() ? "" : writer->name + " writes its buffer " + writer->layer->written_buffer();
}

CheckPart ModelCheck::plan(const Plan& plan) const {
  CheckPart about{.name = "plan",
                  .compared = "the plan's pipeline of " + std::to_string(plan.num_stages()) + " stages with the whole model, " +
                              sizes_text(plan.microbatch_sizes) + ": loss, gradients, buffers"};
  about.tolerance = tolerance_of(model_, {});
  about.remedy = "report this model and plan";
  const ThreadCount one_thread(1);  // the pipeline's devices have one core each
  const MemoryFormat format = plan.options.memory_format;
  const StepRecord expected = whole_step(in_format(model_, format), in_format(batch_, format), plan.microbatch_sizes, seed_);
  PipelineOptions options;
  options.seed = seed_;
  Pipeline pipeline({model_.name(), cloned_layers(model_), model_.loss(), model_.sample(), model_.default_batch()}, plan, options,
                    core_devices(plan));
  const StepResult result = pipeline.step(batch_.inputs, batch_.target);
  std::vector<NamedTensor> gradients;
  for (const NamedTensor& parameter : pipeline.named_parameters()) gradients.push_back({parameter.name, parameter.tensor.grad()});
  ComparedTensors compared(about);
  compared.add({"loss", -1, "", "", 0}, at::scalar_tensor(result.loss, at::kDouble), expected.loss);
  add_gradients(compared, model_, gradients, expected.gradients);
  add_buffers(compared, model_, pipeline.named_buffers(), expected.buffers);
  return compared.part();
}

CheckPart ModelCheck::precision() {
  CheckPart about{.name = "precision",
                  .compared = std::string("the whole batch in ") + name_of(model_.layers().front().precision) +
                              " with the same in float32: loss, gradients",
                  .only_measures = true};
  Model single(model_.name(), cloned_layers(model_), model_.loss(), model_.sample(), model_.default_batch());
  single.compute_in(Precision::float32);
  const StepRecord expected = whole_step(single, batch_, {static_cast<int>(batch_.inputs.at(0).size(0))}, seed_);
  ComparedTensors compared(std::move(about));
  compared.add({"loss", -1, "", "", 0}, whole().loss, expected.loss);
  add_gradients(compared, model_, whole().gradients, expected.gradients);
  return compared.part();
}

}  // namespace mptune::tuner
