#include "mptune/tuner/runtime/pipeline_impl.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "mptune/planner/schedule/schedule.h"
#include "mptune/profiler/base/error.h"
#include "mptune/profiler/collect/nvtx_range.h"
#include "mptune/tuner/runtime/capabilities.h"

namespace mptune {

namespace {

bool is_cancelled(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const StepCancelled&) {
    return true;
  } catch (...) {
    return false;
  }
}

void add_gradient(at::Tensor parameter, const at::Tensor& gradient) {
  if (!gradient.defined()) return;
  at::Tensor& sum = parameter.mutable_grad();
  if (sum.defined()) {
    sum.add_(gradient.to(parameter.device()));
  } else {
    sum = gradient.to(parameter.device(), gradient.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
  }
}

}  // namespace

Pipeline::Impl::Impl(Model model, const Plan& the_plan, const PipelineOptions& the_options,
                     std::vector<std::shared_ptr<Device>> the_devices)
    : plan(the_plan), options(the_options), devices(std::move(the_devices)) {
  validate(plan, model.size(), "plan for " + model.name());
  validate_schedule(plan, "plan for " + model.name());
  if (const std::string why = why_not_executable(plan, kRuntime); !why.empty())
    throw Error("this plan cannot be run: " + why, "plan for " + model.name(), "choose another schedule");
  std::int64_t first = 0;
  for (int size : plan.microbatch_sizes) {
    first_samples.push_back(first);
    first += size;
  }
  for (const auto& device : devices) {
    if (const auto cap = options.memory_bytes.find(device->name()); cap != options.memory_bytes.end()) device->set_memory_cap(cap->second);
    workers.push_back(std::make_unique<DeviceWorker>(device));
  }
  stages.resize(plan.stages.size());
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    const bool last = s + 1 == plan.stages.size();
    for (std::size_t r = 0; r < stage.devices.size(); ++r)
      workers[static_cast<std::size_t>(stage.devices[r])]->run([&] {
        stages[s].push_back(std::make_unique<StageReplica>(model, *devices[static_cast<std::size_t>(stage.devices[r])], stage,
                                                           static_cast<int>(s), static_cast<int>(r),
                                                           last ? std::optional<Loss>(model.loss()) : std::nullopt));
      });
  }
  find_tied();
  refresh_copies = has_replicas() || !tied.empty();  // the caller may set the first ones before the first step
  make_channels();
  bind_rows();
}

Pipeline::Impl::~Impl() {
  for (auto& [ends, lane] : lanes) lane->drain();
  // Stages are freed while the device's thread lives: their tensors return to its memory accounting.
  for (auto& replicas : stages) replicas.clear();
}

void Pipeline::Impl::find_tied() {
  std::map<std::string, Tied> held;
  for (const auto& replicas : stages) {
    for (const NamedTensor& parameter : replicas[0]->named_parameters())
      held[parameter.name] = {replicas[0]->stage(), parameter.tensor, {}};
    for (const NamedTensor& copy : replicas[0]->copies()) held.at(copy.name).copies.push_back(copy.tensor);
  }
  for (auto& [name, parameter] : held)
    if (!parameter.copies.empty()) tied.emplace(name, std::move(parameter));
}

CopyLane* Pipeline::Impl::lane(int source, int destination) {
  if (source == destination) return nullptr;
  auto& found = lanes[{source, destination}];
  if (!found)
    found =
        std::make_unique<CopyLane>(devices[static_cast<std::size_t>(source)], devices[static_cast<std::size_t>(destination)], options.link);
  return found.get();
}

void Pipeline::Impl::make_channels() {
  for (int s = 0; s + 1 < plan.num_stages(); ++s) {
    const Stage& front = plan.stages[static_cast<std::size_t>(s)];
    const Stage& back = plan.stages[static_cast<std::size_t>(s) + 1];
    for (int m = 0; m < plan.num_microbatches(); ++m) {
      auto& channel = channels[{s, replica_of(front, m), replica_of(back, m)}];
      if (channel) continue;
      const int source = device_of(front, m), destination = device_of(back, m);
      channel = std::make_unique<InProcessChannel>(lane(source, destination), lane(destination, source),
                                                   [this](std::exception_ptr error) { fail(std::move(error)); });
    }
  }
}

void Pipeline::Impl::bind_rows() {
  const auto channel = [this](int front, int microbatch) {
    const auto f = static_cast<std::size_t>(front);
    return channels.at({front, replica_of(plan.stages[f], microbatch), replica_of(plan.stages[f + 1], microbatch)}).get();
  };
  for (const auto& row : plan.actions) {
    auto& bound_row = rows.emplace_back();
    for (const Action& action : row) {
      const auto s = static_cast<std::size_t>(action.stage);
      BoundAction bound{action, to_text(action), stages[s][static_cast<std::size_t>(replica_of(plan.stages[s], action.microbatch))].get()};
      if (action.stage > 0) bound.front = channel(action.stage - 1, action.microbatch);
      if (action.stage + 1 < plan.num_stages()) bound.back = channel(action.stage, action.microbatch);
      bound_row.push_back(std::move(bound));
    }
  }
}

void Pipeline::Impl::fail(std::exception_ptr error) {
  if (is_cancelled(error) || !first_error.set(std::move(error))) return;
  for (auto& [ends, channel] : channels) channel->cancel();
}

void Pipeline::Impl::for_devices(const std::function<void(int device)>& work) {
  // Before a worker holds `work`: from then on nothing may leave this function early.
  callers.clear();
  try {
    for (const auto& device : devices) callers.push_back(device->now_of_caller());
  } catch (...) {
    return fail(std::current_exception());
  }
  for (std::size_t d = 0; d < workers.size(); ++d)
    workers[d]->post([this, &work, d] {
      try {
        devices[d]->after(callers[d]);
        work(static_cast<int>(d));
        wait_for(devices[d]->now());
      } catch (...) {
        fail(std::current_exception());
      }
    });
  for (auto& worker : workers) (void)worker->wait();
}

void Pipeline::Impl::prepare_stages(int device, Accumulate accumulate) {
  const at::NoGradGuard no_grad;
  for (auto& replicas : stages) {
    for (auto& replica : replicas) {
      if (device_of_replica(*replica) != device) continue;
      replica->clear_gradients_of_copies();
      if (accumulate == Accumulate::no || replica->replica() > 0) replica->clear_gradients();
      if (refresh_copies) refresh(*replica, device);
    }
  }
}

/// Gives a replica the values of the stage's first, and tied copies those of their first holder.
void Pipeline::Impl::refresh(StageReplica& replica, int device) {
  if (replica.replica() == 0 && replica.copies().empty()) return;
  const auto start = SteadyClock::now();
  const Tag tag{static_cast<int>(steps), replica.stage(), -1, -1, replica.replica()};
  const TagScope scope(gpus, tag, What::reduce);
  // An optimizer may still be writing the first holder's values.
  const auto after_first_of = [&](int stage) {
    const StageReplica& first = *stages[static_cast<std::size_t>(stage)][0];
    devices[static_cast<std::size_t>(device)]->after(callers[static_cast<std::size_t>(device_of_replica(first))]);
  };
  if (replica.replica() > 0) {
    after_first_of(replica.stage());
    const auto& from = stages[static_cast<std::size_t>(replica.stage())][0]->named_parameters();
    for (std::size_t p = 0; p < from.size(); ++p) at::Tensor(replica.named_parameters()[p].tensor).copy_(from[p].tensor);
  }
  for (const NamedTensor& copy : replica.copies()) {
    const Tied& first = tied.at(copy.name);
    after_first_of(first.stage);
    at::Tensor(copy.tensor).copy_(first.first);
  }
  if (auto* recorder = replica.recorder()) recorder->leaf(What::reduce, "refresh parameters", tag, start);
}

void Pipeline::Impl::run_row(int device, Accumulate accumulate) {
  prepare_stages(device, accumulate);
  for (const BoundAction& bound : rows[static_cast<std::size_t>(device)]) {
    const auto start = SteadyClock::now();
    {
      const NvtxRange range(bound.text.c_str(), steps << 32 | bound.action.stage << 16 | bound.action.microbatch);
      const bool is_forward = bound.action.kind == ActionKind::forward;
      const TagScope scope(gpus, tag_of(bound), is_forward ? What::forward : What::backward);
      is_forward ? forward(bound) : backward(bound);
    }
    if (auto* recorder = bound.stage->recorder()) {
      recorder->range(bound.text.c_str(), tag_of(bound), start);
      collector->add_memory(device, devices[static_cast<std::size_t>(device)]->current_bytes());
    }
  }
}

Tensors Pipeline::Impl::receive(Channel& channel, MessageTag tag, const BoundAction& bound) {
  auto* recorder = bound.stage->recorder();
  const bool waits = recorder != nullptr && !channel.arrived(tag);
  const auto start = SteadyClock::now();
  Message message = channel.receive(tag);
  devices[static_cast<std::size_t>(device_of_replica(*bound.stage))]->after(message.there);
  if (waits) recorder->leaf(What::sync, tag.gradient ? "wait for gradient" : "wait for input", tag_of(bound), start);
  return std::move(message.tensors);
}

void Pipeline::Impl::forward(const BoundAction& bound) {
  const int m = bound.action.microbatch;
  const auto i = static_cast<std::size_t>(m);
  const std::int64_t samples = plan.microbatch_sizes[i];
  Device& device = *devices[static_cast<std::size_t>(device_of(plan.stages[static_cast<std::size_t>(bound.action.stage)], m))];
  Tensors given;
  if (bound.front != nullptr) {
    given = receive(*bound.front, {false, m}, bound);
  } else {
    for (const at::Tensor& input : inputs) given.push_back(device.from_host(input.narrow(0, first_samples[i], samples)));
  }
  if (auto* recorder = bound.stage->recorder()) recorder->begin(tag_of(bound));
  const RunContext context{options.seed, steps, m, first_samples[i], samples, false};
  const at::Tensor slice =
      target.defined() && bound.back == nullptr ? device.from_host(target.narrow(0, first_samples[i], samples)) : at::Tensor();
  Tensors outputs = bound.stage->forward(context, std::move(given), slice, static_cast<double>(samples) / plan.global_batch_size());
  if (bound.back != nullptr) bound.back->send({false, m}, std::move(outputs));
}

void Pipeline::Impl::backward(const BoundAction& bound) {
  const int m = bound.action.microbatch;
  if (auto* recorder = bound.stage->recorder()) recorder->begin(tag_of(bound));
  // Recomputation does not need the gradient, so it runs while the gradient is on its way.
  bound.stage->prepare_backward(m);
  Tensors gradients = bound.back != nullptr ? receive(*bound.back, {true, m}, bound) : Tensors{};
  if (auto* recorder = bound.stage->recorder()) recorder->begin(tag_of(bound));
  gradients = bound.stage->backward(m, std::move(gradients));
  if (bound.front != nullptr) bound.front->send({true, m}, std::move(gradients));
}

/// Sums the replicas' gradients into the first, in order of the replicas. Every replica's thread sums its share of the parameters.
/// On GPUs each sums all of its own: work of another thread would appear on no lane.
void Pipeline::Impl::finish_stages(int device) {
  const at::NoGradGuard no_grad;
  for (auto& replicas : stages) {
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      if (device_of_replica(*replicas[r]) != device) continue;
      const auto start = SteadyClock::now();
      const Tag tag{static_cast<int>(steps), replicas[r]->stage(), -1, -1, static_cast<int>(r)};
      const TagScope scope(gpus, tag, What::reduce);
      const std::size_t sharers = replicas[0]->on_gpu() ? 1 : replicas.size();
      if (r >= sharers) continue;
      for (std::size_t p = r; replicas.size() > 1 && p < replicas[0]->trained().size(); p += sharers)
        for (std::size_t other = 1; other < replicas.size(); ++other)
          add_gradient(replicas[0]->trained()[p], replicas[other]->trained()[p].grad());
      if (auto* recorder = replicas[r]->recorder(); recorder != nullptr && replicas.size() > 1)
        recorder->leaf(What::reduce, "sum gradients", tag, start);
    }
    if (device_of_replica(*replicas[0]) != device || !replicas[0]->has_batch_statistics()) continue;
    const TagScope scope(gpus, {static_cast<int>(steps), replicas[0]->stage(), -1, -1, 0}, What::reduce);
    std::vector<StageReplica*> all;
    for (auto& replica : replicas) all.push_back(replica.get());
    replicas[0]->commit_statistics(all);
  }
}

/// Adds the gradients of tied copies to their first holder's, in order of the stages.
void Pipeline::Impl::sum_tied(int device) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : tied) {
    StageReplica& holder = *stages[static_cast<std::size_t>(parameter.stage)][0];
    if (device_of_replica(holder) != device) continue;
    const auto start = SteadyClock::now();
    const Tag tag{static_cast<int>(steps), parameter.stage, -1, -1, 0};
    const TagScope scope(gpus, tag, What::reduce);
    for (const at::Tensor& copy : parameter.copies) add_gradient(parameter.first, copy.grad());
    if (auto* recorder = holder.recorder()) recorder->leaf(What::reduce, "sum tied gradients", tag, start);
  }
}

void Pipeline::Impl::recover() {
  for (auto& [ends, lane] : lanes) lane->drain();
  // A copy that failed while the lanes drained belongs to the step that is over.
  (void)first_error.take();
  for (auto& [ends, channel] : channels) channel->reset();
  for_devices([this](int device) {
    for (auto& replicas : stages)
      for (auto& replica : replicas)
        if (device_of_replica(*replica) == device) replica->abandon();
  });
  // Reports the error that ended the step, not errors of the clean-up.
  (void)first_error.take();
}

}  // namespace mptune
