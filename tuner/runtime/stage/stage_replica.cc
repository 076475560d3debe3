#include "tuner/runtime/stage/stage_replica.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "profiler/base/activity.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/model/layers/in_memory_format.h"

namespace mptune::tuner {

namespace {

/// Returns the names of the shared tensors that layers before `layer` hold.
std::set<std::string> shared_before(const Model& model, int layer) {
  std::set<std::string> names;
  for (int i = 0; i < layer; ++i) {
    const Layer& earlier = *model.layers()[as_index(i)].layer;
    if (!earlier.shares_by_name()) continue;
    for (const auto& tensors : {earlier.parameters(), earlier.buffers()})
      for (const NamedTensor& named : tensors) names.insert(named.name);
  }
  return names;
}

bool has_hooks(const at::Tensor& parameter) {
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
  return !torch::autograd::impl::hooks(parameter).empty() || (accumulator && !accumulator->post_hooks().empty());
}

/// A clone has the hooks that its layer registers, not those of the caller.
void check_hooks(const ModelLayer& source, const Layer& clone) {
  const std::vector<NamedTensor> before = source.layer->parameters(), after = clone.parameters();
  for (std::size_t i = 0; i < before.size(); ++i)
    if (has_hooks(before[i].tensor) && !has_hooks(after.at(i).tensor))
      throw Error("the parameter " + before[i].name + " has a hook, which the copies on the devices would lose", "layer " + source.name,
                  "register it on pipeline.parameters(stage), or in the layer itself when it is cloned");
}

/// Returns how long a backward over `layers` layers may take the first time [s].
double patience_for(int layers) {
  constexpr int kMost = 5;
  return kPatienceSeconds * std::min(layers, kMost);
}

/// Some losses are means that keep alive the memory of all the values that they are computed from.
at::Tensor without_spare_memory(const at::Tensor& loss) {
  return static_cast<std::size_t>(loss.nbytes()) < loss.storage().nbytes() ? loss.clone() : loss;
}

}  // namespace

StageReplica::StageReplica(const Model& model, Device& device, const Stage& stage, int index, int replica, std::optional<Loss> loss,
                           const PendingWeights::Groups& weight_order, const ExecutionOptions& options)
    : stage_(stage),
      index_(index),
      replica_(replica),
      loss_(std::move(loss)),
      on_gpu_(device.spec().kind == DeviceSpec::Kind::cuda),
      pending_(weight_order) {
  for (int i = stage.first_layer; i < stage.last_layer; ++i) {
    const ModelLayer& source = model.layers()[as_index(i)];
    layers_.push_back(copy_of(source));
    layers_.back().precision = options.precision;
    check_hooks(source, *layers_.back().layer);
    has_batch_statistics_ = has_batch_statistics_ || source.layer->has_batch_statistics();
  }
  statistics_.resize(layers_.size());
  tie_layers(layers_);
  profiler::to_memory_format(layers_, options.memory_format);
  const std::set<std::string> before = shared_before(model, stage.first_layer);
  for (NamedTensor& buffer : buffers_of(layers_)) {
    device.adopt(buffer.tensor);
    if (before.count(buffer.name) == 0) buffers_.push_back(std::move(buffer));
  }
  for (NamedTensor& parameter : parameters_of(layers_)) {
    device.adopt(parameter.tensor);
    (before.count(parameter.name) == 0 ? parameters_ : copies_).push_back(std::move(parameter));
  }
  for (const auto& tensors : {parameters_, copies_})
    for (const NamedTensor& named : tensors) trained_.push_back(named.tensor);
  for (std::size_t i = 0; i < layers_.size(); ++i)
    for (const NamedTensor& parameter : layers_[i].layer->parameters())
      if (!layer_of_.emplace(parameter.tensor.unsafeGetTensorImpl(), stage.first_layer + static_cast<int>(i)).second)
        shared_.push_back(parameter.tensor);
}

std::vector<StageReplica::Segment> StageReplica::segments_for(int microbatch) const {
  const int layers = static_cast<int>(layers_.size());
  if (!recomputes(stage_.recompute, microbatch)) return {{0, layers, false}};
  if (stage_.recompute.mode == Recompute::Mode::all) return {{0, layers, true}};
  std::vector<Segment> segments;
  for (int i = 0; i < layers; ++i) {
    const auto& listed = stage_.recompute.layers;
    const bool again = std::find(listed.begin(), listed.end(), stage_.first_layer + i) != listed.end();
    if (segments.empty() || segments.back().recompute != again) segments.push_back({i, i, again});
    segments.back().last = i + 1;
  }
  return segments;
}

Tensors StageReplica::run_layers(const Segment& segment, Tensors values, const RunContext& context, EventKind kind) {
  for (int i = segment.first; i < segment.last; ++i) {
    const ModelLayer& running = layers_[as_index(i)];
    last_ = {i, i + 1, false};
    const int layer = stage_.first_layer + i;
    values = profiler::marked_outputs(*running.layer, values, run_layer(running, layer, values, context));
    if (!context.recomputing && !context.evaluating) {
      collect_statistics(i, context.microbatch);
      check_written(i, context);
    }
    if (!recorder_.records()) continue;
    recorder_.leaf(kind, layer);
    // While recording, the hook on a layer's output runs when the backward of the next layer has ended.
    const bool last_output = i + 1 == segment.last && !ends_in_loss(segment);
    if (at::GradMode::is_enabled() && values[0].requires_grad() && !last_output)
      values[0].register_hook([this, layer](const at::Tensor&) { recorder_.leaf(backward_kind_, layer + 1); });
  }
  return values;
}

at::Tensor StageReplica::loss_of(const Tensors& outputs, const InFlight& flight, EventKind kind) {
  last_ = {static_cast<int>(layers_.size()), 0, false};
  at::Tensor loss = flight.weight > 0 ? (*loss_)(outputs, flight.target) : Loss::of_nothing(outputs);
  recorder_.leaf(kind, stage_.last_layer);
  return loss;
}

std::unique_ptr<profiler::SavedActivations> StageReplica::saved_by(const Tensors& inputs, const at::Tensor& target) const {
  Tensors kept = trained_;
  kept.insert(kept.end(), inputs.begin(), inputs.end());
  kept.push_back(target);
  for (const NamedTensor& buffer : buffers_of(layers_)) kept.push_back(buffer.tensor);
  return std::make_unique<profiler::SavedActivations>(kept);
}

void StageReplica::free_saved(int microbatch, Tensors copies) {
  InFlight& flight = in_flight_.at(microbatch);
  flight.saved->free();
  flight.in_host = std::move(copies);
}

Tensors StageReplica::forward(const RunContext& context, Tensors inputs, const at::Tensor& target, double weight, bool offload) {
  InFlight& flight = in_flight_[context.microbatch];
  flight = {context, target, weight, {}};
  if (offload) flight.saved = saved_by(inputs, target);
  const auto collecting = offload ? flight.saved->collect() : nullptr;
  Tensors values = std::move(inputs);
  for (const Segment& segment : segments_for(context.microbatch)) {
    const at::AutoGradMode grad(!segment.recompute);
    SavedSegment saved{segment, {profiler::as_leaves(values), {}, {}}};
    RunContext running = context;
    running.recomputed = segment.recompute;
    values = run_layers(segment, saved.piece.inputs, running, EventKind::forward);
    if (ends_in_loss(segment)) {
      values = {loss_of(values, flight, EventKind::forward)};
      // The loss is read at the end of the step (send_losses): reading it now would wait for the device.
      losses_[context.microbatch] = {without_spare_memory(values[0].detach()), weight};
    }
    if (!segment.recompute) profiler::set_roots(saved.piece, values);
    flight.segments.push_back(std::move(saved));
  }
  return loss_ ? Tensors{} : profiler::as_leaves(values);
}

Tensors StageReplica::evaluate(const RunContext& context, Tensors inputs) {
  const at::NoGradGuard no_gradients;
  return run_layers({0, static_cast<int>(layers_.size()), false}, std::move(inputs), context, EventKind::forward);
}

std::string StageReplica::last_layers() const {
  if (last_.first == static_cast<int>(layers_.size())) return "the loss";
  if (last_.last == 0) return "";
  const std::string first = "'" + layers_[as_index(last_.first)].name + "'";
  if (last_.last - last_.first == 1) return "layer " + first;
  return "layers " + first + " to '" + layers_[as_index(last_.last - 1)].name + "'";
}

void StageReplica::rerun(InFlight& flight, SavedSegment& saved) {
  const at::AutoGradMode grad(true);
  RunContext again = flight.context;
  again.recomputing = true;
  saved.piece.inputs = profiler::as_leaves(saved.piece.inputs);
  Tensors outputs = run_layers(saved.segment, saved.piece.inputs, again, EventKind::recompute);
  if (ends_in_loss(saved.segment)) outputs = {loss_of(outputs, flight, EventKind::recompute)};
  profiler::set_roots(saved.piece, outputs);
  saved.segment.recompute = false;
}

void StageReplica::prepare_backward(int microbatch) {
  InFlight& flight = in_flight_.at(microbatch);
  if (flight.segments.back().segment.recompute) rerun(flight, flight.segments.back());
}

Tensors StageReplica::backward(int microbatch, Tensors gradients) {
  backward_kind_ = EventKind::backward;
  gradients = backward_through_segments(microbatch, std::move(gradients), nullptr);
  pending_.add(microbatch, {});
  return gradients;
}

Tensors StageReplica::backward_input(int microbatch, Tensors gradients) {
  backward_kind_ = EventKind::backward_input;
  profiler::WeightGradients aside;
  gradients = backward_through_segments(microbatch, std::move(gradients), &aside);
  pending_.add(microbatch, std::move(aside));
  return gradients;
}

Tensors StageReplica::backward_through_segments(int microbatch, Tensors gradients, profiler::WeightGradients* aside) {
  InFlight flight = std::move(in_flight_.extract(microbatch).mapped());
  const bool only_segment = flight.segments.size() == 1;
  while (!flight.segments.empty()) {
    SavedSegment saved = std::move(flight.segments.back());
    flight.segments.pop_back();
    if (saved.segment.recompute) rerun(flight, saved);
    if (ends_in_loss(saved.segment)) gradients = {at::full_like(losses_.at(microbatch).loss, flight.weight * loss_scale_)};
    const int ends_at = recorder_.records() ? first_trained(saved) : 0;
    if (aside != nullptr) std::ranges::move(split(saved, only_segment), std::back_inserter(*aside));
    last_ = saved.segment;
    const Activity activity("the backward of " + last_layers(), {}, patience_for(saved.segment.last - saved.segment.first));
    gradients = profiler::backward_through(std::move(saved.piece), std::move(gradients));
    recorder_.leaf(backward_kind_, stage_.first_layer + ends_at);
  }
  return gradients;
}

profiler::WeightGradients StageReplica::split(const SavedSegment& saved, bool only_segment) {
  // A weight that segments share must not be set aside in one segment and added by the backward in another.
  auto aside = profiler::set_weights_aside(saved.piece, only_segment ? std::vector<at::Tensor>() : shared_);
  finish_weights_before(saved, aside);
  return aside;
}

/// The backward of a segment adds the weights that are not in `aside`. If earlier micro-batches left gradients of such a weight, they are
/// added before: the order must not depend on when another thread takes them.
void StageReplica::finish_weights_before(const SavedSegment& saved, const profiler::WeightGradients& aside) {
  std::set<const c10::TensorImpl*> left;
  for (const auto& gradient : aside) left.insert(gradient->weight().unsafeGetTensorImpl());
  for (int i = saved.segment.first; i < saved.segment.last; ++i)
    for (const NamedTensor& parameter : layers_[as_index(i)].layer->parameters()) {
      if (left.contains(parameter.tensor.unsafeGetTensorImpl()) || !pending_.holds(parameter.tensor)) continue;
      backward_all_weights();
    }
}

void StageReplica::backward_weight(int microbatch) {
  run_weights([&] { return pending_.take_up_to(microbatch); });
}

void StageReplica::backward_all_weights() {
  run_weights([this] { return pending_.take_all(); });
}

template <class Take>
void StageReplica::run_weights(const Take& take) {
  int layer = -1;
  while (auto taken = take()) {
    const int next = layer_of(taken->weight);
    if (layer >= 0 && next != layer) recorder_.leaf(EventKind::backward_weight, layer);
    layer = next;
    last_ = {layer - stage_.first_layer, layer - stage_.first_layer + 1, false};
    const Activity activity("the weight gradients of layer", layers_[as_index(layer - stage_.first_layer)].name);
    profiler::run_together(taken->gradients);
    pending_.done(*taken);
  }
  if (layer >= 0) recorder_.leaf(EventKind::backward_weight, layer);
}

int StageReplica::first_trained(const SavedSegment& saved) const {
  const auto& inputs = saved.piece.inputs;
  int layer = saved.segment.first;
  if (std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& input) { return input.requires_grad(); })) return layer;
  while (layer + 1 < saved.segment.last && layers_[as_index(layer)].layer->parameters().empty()) ++layer;
  return layer;
}

void StageReplica::send_losses() {
  if (losses_.empty()) return;
  Tensors of_device;
  for (const auto& [microbatch, weighted] : losses_) of_device.push_back(weighted.loss);
  const at::Tensor on_host = at::stack(of_device).to(at::kCPU, /*non_blocking=*/true);
  std::int64_t next = 0;
  for (auto& [microbatch, weighted] : losses_) weighted.loss = on_host[next++];
}

double StageReplica::take_loss(int microbatch) {
  const WeightedLoss weighted = std::move(losses_.extract(microbatch).mapped());
  return weighted.loss.item<double>() * weighted.weight;
}

void StageReplica::abandon() {
  in_flight_.clear();
  losses_.clear();
  pending_.reset();
  last_writing_ = {};
  for (auto& layer : statistics_) layer.clear();
}

void StageReplica::clear_gradients() {
  for (at::Tensor& tensor : trained_) tensor.mutable_grad().reset();
}

void StageReplica::clear_gradients_of_copies() {
  for (NamedTensor& copy : copies_) copy.tensor.mutable_grad().reset();
}

std::vector<ModelLayer> StageReplica::copied_layers() const {
  const at::NoGradGuard no_gradients;
  std::vector<ModelLayer> copies;
  for (const ModelLayer& layer : layers_) {
    copies.push_back(copy_of(layer));
    for (const auto& tensors : {copies.back().layer->parameters(), copies.back().layer->buffers()})
      for (const NamedTensor& named : tensors) at::Tensor(named.tensor).set_data(named.tensor.cpu().contiguous());
  }
  return copies;
}

std::vector<std::string> StageReplica::layer_names() const {
  std::vector<std::string> names;
  for (const ModelLayer& layer : layers_) names.push_back(layer.name);
  return names;
}

/// A layer whose forward writes a buffer must see all micro-batches in their order.
void StageReplica::check_written(int layer, const RunContext& context) {
  const std::string buffer = layers_[as_index(layer)].layer->written_buffer();
  if (buffer.empty()) return;
  const std::string where = "layer " + layers_[as_index(layer)].name;
  if (stage_.devices.size() > 1)
    throw Error("its forward writes the buffer " + buffer + ", and every replica would see some of the micro-batches only", where,
                "give its stage one device (--replicas)");
  if (context.step == last_writing_.step && context.microbatch < last_writing_.microbatch)
    throw Error("its forward writes the buffer " + buffer + ", and micro-batch " + std::to_string(context.microbatch) +
                    " comes after micro-batch " + std::to_string(last_writing_.microbatch),
                where, "choose a schedule that takes them in order, such as 1f1b");
  last_writing_ = context;
}

}  // namespace mptune::tuner
