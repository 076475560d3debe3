#include "mptune/tuner/runtime/pipeline.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <mutex>
#include <set>

#include "mptune/planner/schedule/schedule.h"
#include "mptune/profiler/collect/nvtx_range.h"
#include "mptune/profiler/device/copy_lane.h"
#include "mptune/profiler/device/device_worker.h"
#include "mptune/profiler/trace/error.h"
#include "mptune/tuner/runtime/channel.h"
#include "mptune/tuner/runtime/stage_replica.h"

namespace mptune {

namespace {

/// The first exception of a step; the others drain.
class FirstError {
 public:
  /// True for the first one since take().
  bool set(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_) return false;
    error_ = std::move(error);
    return true;
  }
  [[nodiscard]] std::exception_ptr take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(error_, nullptr);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

bool is_cancelled(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const StepCancelled&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// A cell of a device's list, ready to run: what a name and an NVTX range need is made once.
struct BoundAction {
  Action action;
  std::string text;
  StageReplica* stage = nullptr;
  Channel* front = nullptr;  ///< to the stage before, for this micro-batch
  Channel* back = nullptr;   ///< to the stage behind
};

}  // namespace

struct Pipeline::Impl {
  Plan plan;
  PipelineOptions options;
  std::vector<std::shared_ptr<Device>> devices;
  // Destroyed from the bottom up: lanes finish before workers, workers free their stages' tensors.
  std::vector<std::unique_ptr<DeviceWorker>> workers;
  std::vector<std::vector<std::unique_ptr<StageReplica>>> stages;  ///< [stage][replica]
  std::map<std::pair<int, int>, std::unique_ptr<CopyLane>> lanes;   ///< by (source, destination)
  std::map<std::tuple<int, int, int>, std::unique_ptr<InProcessChannel>> channels;  ///< by (front stage, its replica, back replica)
  std::vector<std::vector<BoundAction>> rows;
  std::vector<std::int64_t> first_samples;
  FirstError first_error;
  HostCollector* collector = nullptr;
  std::int64_t steps = 0;
  bool refresh_replicas = false;

  // of the current step
  at::Tensor data, target;

  Impl(Model model, const Plan& the_plan, const PipelineOptions& the_options, std::vector<std::shared_ptr<Device>> the_devices);
  ~Impl();

  void make_channels();
  CopyLane* lane(int source, int destination);
  void bind_rows();
  void for_devices(const std::function<void(int device)>& work);
  void fail(std::exception_ptr error);
  void run_row(int device, Accumulate accumulate);
  void prepare_stages(int device, Accumulate accumulate);
  void forward(const BoundAction& bound);
  void backward(const BoundAction& bound);
  Tensors receive(Channel& channel, MessageTag tag, const BoundAction& bound);
  void finish_stages(int device);
  void recover();
  [[nodiscard]] Tag tag_of(const BoundAction& bound) const {
    return {static_cast<int>(steps), bound.action.stage, bound.action.microbatch, -1, bound.stage->replica()};
  }
  [[nodiscard]] bool has_replicas() const {
    return std::any_of(stages.begin(), stages.end(), [](const auto& replicas) { return replicas.size() > 1; });
  }
};

Pipeline::Impl::Impl(Model model, const Plan& the_plan, const PipelineOptions& the_options, std::vector<std::shared_ptr<Device>> the_devices)
    : plan(the_plan), options(the_options), devices(std::move(the_devices)) {
  validate(plan, model.size(), "plan for " + model.name());
  validate_schedule(plan, "plan for " + model.name());
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
        stages[s].push_back(std::make_unique<StageReplica>(model, stage, static_cast<int>(s), static_cast<int>(r),
                                                           last ? std::optional<Loss>(model.loss()) : std::nullopt));
      });
  }
  make_channels();
  bind_rows();
}

Pipeline::Impl::~Impl() {
  for (auto& [ends, lane] : lanes) lane->drain();
  // A stage's tensors go back to the account of the device while its thread still lives.
  for (auto& replicas : stages) replicas.clear();
}

CopyLane* Pipeline::Impl::lane(int source, int destination) {
  if (source == destination) return nullptr;
  auto& found = lanes[{source, destination}];
  if (!found)
    found = std::make_unique<CopyLane>(devices[static_cast<std::size_t>(source)], devices[static_cast<std::size_t>(destination)], options.link);
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
  for (std::size_t d = 0; d < workers.size(); ++d)
    workers[d]->post([this, &work, d] {
      try {
        work(static_cast<int>(d));
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
      if (plan.stages[static_cast<std::size_t>(replica->stage())].devices[static_cast<std::size_t>(replica->replica())] != device) continue;
      if (accumulate == Accumulate::no || replica->replica() > 0) replica->clear_gradients();
      if (replica->replica() == 0 || !refresh_replicas) continue;
      const auto start = SteadyClock::now();
      for (std::size_t p = 0; p < replica->parameters().size(); ++p) at::Tensor(replica->parameters()[p]).copy_(replicas[0]->parameters()[p]);
      if (auto* recorder = replica->recorder())
        recorder->leaf(What::reduce, "refresh parameters", {static_cast<int>(steps), replica->stage(), -1, -1, replica->replica()}, start);
    }
  }
}

void Pipeline::Impl::run_row(int device, Accumulate accumulate) {
  prepare_stages(device, accumulate);
  for (const BoundAction& bound : rows[static_cast<std::size_t>(device)]) {
    const auto start = SteadyClock::now();
    {
      const NvtxRange range(bound.text.c_str(), steps << 32 | bound.action.stage << 16 | bound.action.microbatch);
      bound.action.kind == ActionKind::forward ? forward(bound) : backward(bound);
    }
    if (auto* recorder = bound.stage->recorder()) {
      recorder->range(bound.text.c_str(), tag_of(bound), start);
      collector->add_memory(device, devices[static_cast<std::size_t>(device)]->current_bytes());
    }
  }
}

Tensors Pipeline::Impl::receive(Channel& channel, MessageTag tag, const BoundAction& bound) {
  auto* recorder = bound.stage->recorder();
  if (recorder == nullptr || channel.arrived(tag)) return channel.receive(tag);
  const auto start = SteadyClock::now();
  Tensors tensors = channel.receive(tag);
  recorder->leaf(What::sync, tag.gradient ? "wait for gradient" : "wait for input", tag_of(bound), start);
  return tensors;
}

void Pipeline::Impl::forward(const BoundAction& bound) {
  const int m = bound.action.microbatch;
  const auto i = static_cast<std::size_t>(m);
  const std::int64_t samples = plan.microbatch_sizes[i];
  Device& device = *devices[static_cast<std::size_t>(device_of(plan.stages[static_cast<std::size_t>(bound.action.stage)], m))];
  Tensors inputs = bound.front != nullptr ? receive(*bound.front, {false, m}, bound)
                                          : Tensors{device.from_host(data.narrow(0, first_samples[i], samples))};
  if (auto* recorder = bound.stage->recorder()) recorder->begin(tag_of(bound));
  const RunContext context{options.seed, steps, m, first_samples[i], samples, false};
  const at::Tensor slice = target.defined() && bound.back == nullptr ? device.from_host(target.narrow(0, first_samples[i], samples)) : at::Tensor();
  Tensors outputs = bound.stage->forward(context, std::move(inputs), slice, static_cast<double>(samples) / plan.global_batch_size());
  if (bound.back != nullptr) bound.back->send({false, m}, std::move(outputs));
}

void Pipeline::Impl::backward(const BoundAction& bound) {
  const int m = bound.action.microbatch;
  if (auto* recorder = bound.stage->recorder()) recorder->begin(tag_of(bound));
  // What is recomputed does not need the gradient: it fills the time until that arrives.
  bound.stage->prepare_backward(m);
  Tensors gradients = bound.back != nullptr ? receive(*bound.back, {true, m}, bound) : Tensors{};
  if (auto* recorder = bound.stage->recorder()) recorder->begin(tag_of(bound));
  gradients = bound.stage->backward(m, std::move(gradients));
  if (bound.front == nullptr) return;
  // An integer input has no gradient, but its place in the message stays.
  for (at::Tensor& gradient : gradients)
    if (!gradient.defined()) gradient = at::empty({0});
  bound.front->send({true, m}, std::move(gradients));
}

/// Sums the replicas' gradients into the first, in order of the replicas; every replica's thread sums its share of the parameters.
void Pipeline::Impl::finish_stages(int device) {
  const at::NoGradGuard no_grad;
  for (auto& replicas : stages) {
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      if (plan.stages[static_cast<std::size_t>(replicas[r]->stage())].devices[r] != device) continue;
      const auto start = SteadyClock::now();
      for (std::size_t p = r; replicas.size() > 1 && p < replicas[0]->parameters().size(); p += replicas.size()) {
        at::Tensor sum = replicas[0]->parameters()[p].grad();
        for (std::size_t other = 1; other < replicas.size(); ++other) {
          const at::Tensor& gradient = replicas[other]->parameters()[p].grad();
          if (!gradient.defined()) continue;
          if (sum.defined()) {
            sum.add_(gradient);
          } else {
            sum = gradient.clone();
          }
        }
        at::Tensor(replicas[0]->parameters()[p]).mutable_grad() = sum;
      }
      if (auto* recorder = replicas[r]->recorder(); recorder != nullptr && replicas.size() > 1)
        recorder->leaf(What::reduce, "sum gradients", {static_cast<int>(steps), replicas[r]->stage(), -1, -1, static_cast<int>(r)}, start);
    }
    if (plan.stages[static_cast<std::size_t>(replicas[0]->stage())].devices[0] != device || !replicas[0]->has_batch_statistics()) continue;
    std::vector<StageReplica*> all;
    for (auto& replica : replicas) all.push_back(replica.get());
    replicas[0]->commit_statistics(all);
  }
}

void Pipeline::Impl::recover() {
  for (auto& [ends, lane] : lanes) lane->drain();
  for (auto& [ends, channel] : channels) channel->reset();
  for_devices([this](int device) {
    for (auto& replicas : stages)
      for (auto& replica : replicas)
        if (plan.stages[static_cast<std::size_t>(replica->stage())].devices[static_cast<std::size_t>(replica->replica())] == device) replica->abandon();
  });
}

namespace {

std::vector<std::shared_ptr<Device>> devices_of(const Plan& plan) {
  std::vector<std::shared_ptr<Device>> devices;
  for (const DeviceSpec& spec : parse_device_names(plan.devices)) devices.push_back(make_device(spec));
  return devices;
}

const Plan& checked(const Model& model, const PlanFile& file, bool strict) {
  if (file.fingerprint.model.empty() || file.fingerprint.model == model.fingerprint()) return file.plan;
  if (strict) throw Error("the plan was made for another model", model.name(), "tune this model, or leave out strict");
  std::fprintf(stderr, "mptune: warning: the plan was made for another model than %s; tune it again\n", model.name().c_str());
  return file.plan;
}

}  // namespace

Pipeline::Pipeline(Model model, const Plan& plan, const PipelineOptions& options) : Pipeline(std::move(model), plan, options, devices_of(plan)) {}

Pipeline::Pipeline(Model model, const PlanFile& file, const PipelineOptions& options)
    : Pipeline([&]() -> Model&& { return (void)checked(model, file, options.strict), std::move(model); }(), file.plan, options) {}

Pipeline::Pipeline(Model model, const Plan& plan, const PipelineOptions& options, std::vector<std::shared_ptr<Device>> devices)
    : impl_(std::make_unique<Impl>(std::move(model), plan, options, std::move(devices))) {}

Pipeline::~Pipeline() = default;
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;

StepResult Pipeline::step(const at::Tensor& data, const at::Tensor& target, Accumulate accumulate) {
  Impl& impl = *impl_;
  const int batch = impl.plan.global_batch_size();
  if (data.dim() == 0 || data.size(0) != batch || (target.defined() && (target.dim() == 0 || target.size(0) != batch)))
    throw Error("the batch has " + std::to_string(data.dim() == 0 ? 0 : data.size(0)) + " samples", "plan for " + std::to_string(batch),
                "pass as many samples as the plan's global batch");
  const NvtxRange range("step", impl.steps);
  const auto start = SteadyClock::now();
  impl.data = data;
  impl.target = target;
  impl.for_devices([&](int device) { impl.run_row(device, accumulate); });
  auto error = impl.first_error.take();
  if (!error) {
    const bool statistics =
        std::any_of(impl.stages.begin(), impl.stages.end(), [](const auto& replicas) { return replicas[0]->has_batch_statistics(); });
    if (impl.has_replicas() || statistics) impl.for_devices([&](int device) { impl.finish_stages(device); });
    error = impl.first_error.take();
  }
  impl.data.reset();
  impl.target.reset();
  if (error) {
    impl.recover();
    std::rethrow_exception(error);
  }
  StepResult result;
  for (int m = 0; m < impl.plan.num_microbatches(); ++m)
    result.loss += impl.stages.back()[static_cast<std::size_t>(replica_of(impl.plan.stages.back(), m))]->take_loss(m);
  impl.refresh_replicas = impl.has_replicas();
  result.seconds = std::chrono::duration<double>(SteadyClock::now() - start).count();
  ++impl.steps;
  return result;
}

std::vector<at::Tensor> Pipeline::parameters(int stage) const { return impl_->stages.at(static_cast<std::size_t>(stage))[0]->parameters(); }

std::vector<NamedTensor> Pipeline::named_parameters() const {
  std::vector<NamedTensor> all;
  for (const auto& replicas : impl_->stages)
    for (NamedTensor& parameter : replicas[0]->named_parameters()) all.push_back(std::move(parameter));
  return all;
}

std::vector<NamedTensor> Pipeline::named_buffers() const {
  std::vector<NamedTensor> all;
  for (const auto& replicas : impl_->stages)
    for (NamedTensor& buffer : replicas[0]->named_buffers()) all.push_back(std::move(buffer));
  return all;
}

void Pipeline::copy_state_to(Model& model) const {
  const at::NoGradGuard no_grad;
  const auto copy = [](std::vector<NamedTensor> from, std::vector<NamedTensor> to) {
    for (std::size_t i = 0; i < from.size(); ++i) to.at(i).tensor.copy_(from[i].tensor);
  };
  copy(named_parameters(), model.parameters());
  copy(named_buffers(), model.buffers());
}

void Pipeline::on_stages(const std::function<void(int stage)>& work) {
  Impl& impl = *impl_;
  impl.for_devices([&](int device) {
    for (auto& replicas : impl.stages) {
      StageReplica& first = *replicas[0];
      if (impl.plan.stages[static_cast<std::size_t>(first.stage())].devices[0] != device) continue;
      const auto start = SteadyClock::now();
      work(first.stage());
      if (auto* recorder = first.recorder())
        recorder->leaf(What::optimizer, "optimizer", {static_cast<int>(impl.steps) - 1, first.stage(), -1, -1, 0}, start);
    }
  });
  if (auto error = impl.first_error.take()) {
    impl.recover();
    std::rethrow_exception(error);
  }
}

const Plan& Pipeline::plan() const { return impl_->plan; }
std::int64_t Pipeline::steps() const { return impl_->steps; }

std::vector<std::int64_t> Pipeline::peak_bytes() const {
  std::vector<std::int64_t> peaks;
  for (const auto& device : impl_->devices) peaks.push_back(device->peak_bytes());
  return peaks;
}

void Pipeline::reset_peak_bytes() {
  for (const auto& device : impl_->devices) device->reset_peak();
}

std::string Pipeline::out_of_memory_device() const {
  for (const auto& device : impl_->devices)
    if (device->refused_bytes() > 0) return device->name();
  return "";
}

std::int64_t Pipeline::refused_bytes() const {
  for (const auto& device : impl_->devices)
    if (device->refused_bytes() > 0) return device->refused_bytes();
  return 0;
}

void Pipeline::record(HostCollector* collector) {
  Impl& impl = *impl_;
  for (auto& [ends, lane] : impl.lanes) lane->drain();
  impl.collector = collector;
  for (auto& replicas : impl.stages) {
    for (auto& replica : replicas) {
      if (collector == nullptr) {
        replica->set_recorder(nullptr);
        continue;
      }
      const int device = impl.plan.stages[static_cast<std::size_t>(replica->stage())].devices[static_cast<std::size_t>(replica->replica())];
      LaneLog& log = collector->lane(device, kComputeLane, "stage worker " + impl.devices[static_cast<std::size_t>(device)]->name());
      replica->set_recorder(std::make_unique<LeafRecorder>(*collector, log, replica->first_layer(), replica->layer_names()));
    }
  }
  for (auto& [ends, channel] : impl.channels) {
    if (collector == nullptr) {
      channel->set_observer(nullptr);
      continue;
    }
    const auto [front, front_replica, back_replica] = ends;
    const int source = impl.plan.stages[static_cast<std::size_t>(front)].devices[static_cast<std::size_t>(front_replica)];
    const int destination = impl.plan.stages[static_cast<std::size_t>(front) + 1].devices[static_cast<std::size_t>(back_replica)];
    const auto log_of = [&](int from, int to) {
      return &collector->lane(from, copy_lane(to), "copies " + impl.devices[static_cast<std::size_t>(from)]->name() + " to " +
                                                       impl.devices[static_cast<std::size_t>(to)]->name());
    };
    LaneLog* forward = log_of(source, destination);
    LaneLog* backward = log_of(destination, source);
    const int activation = collector->name("copy activation"), gradient = collector->name("copy gradient");
    channel->set_observer([=, this_impl = &impl, front_stage = front](MessageTag tag, std::int64_t bytes, SteadyClock::time_point began,
                                                                      SteadyClock::time_point ended) {
      const int receiver = tag.gradient ? front_stage : front_stage + 1;
      const Tag event{static_cast<int>(this_impl->steps), receiver, tag.microbatch, -1, -1};
      if (tag.gradient) {
        backward->add_copy(gradient, event, {bytes, destination, source}, began, ended);
      } else {
        forward->add_copy(activation, event, {bytes, source, destination}, began, ended);
      }
    });
  }
}

std::vector<TraceDevice> Pipeline::trace_devices() const {
  std::vector<TraceDevice> devices;
  for (const auto& device : impl_->devices) devices.push_back(device->description());
  return devices;
}

}  // namespace mptune
