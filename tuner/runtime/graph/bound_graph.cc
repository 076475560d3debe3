#include "tuner/runtime/graph/bound_graph.h"

#include <ATen/Version.h>

#include <algorithm>
#include <optional>
#include <set>

#include "planner/plan/executable.h"
#include "planner/schedule/schedule.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"
#include "profiler/device/list/device_list.h"
#include "tuner/runtime/graph/capabilities.h"

namespace mptune::tuner {
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

// In a step threads wait for as long as an action of another device takes; waking one up takes about 0.1 ms.
constexpr std::chrono::milliseconds kSpinInStep{5};
// Between steps: longer than the wake-up of a thread, shorter than the caller or another pipeline would miss the core.
constexpr std::chrono::microseconds kSpinBetweenSteps{200};

/// Micro-batches of a replica in the order in which its device's row adds their weight gradients; fused ones are one entry.
PendingWeights::Groups weight_order(const Plan& plan, int stage, int device) {
  PendingWeights::Groups order;
  for (const Action& action : plan.actions[as_index(device)]) {
    if (action.stage != stage || (action.kind != ActionKind::backward && action.kind != ActionKind::backward_weight)) continue;
    std::vector<int>& group = order.emplace_back();
    for (int i = action.microbatch; i <= action.last_microbatch(); ++i) group.push_back(i);
  }
  return order;
}

/// Returns the stages of each weight that layers of several stages share by name.
std::map<std::string, std::vector<int>> stages_of_tied(const Model& model, const std::vector<Stage>& stages) {
  std::map<std::string, std::vector<int>> by_name;
  for (int s = 0; s < static_cast<int>(stages.size()); ++s)
    for (int i = stages[as_index(s)].first_layer; i < stages[as_index(s)].last_layer; ++i) {
      const Layer& layer = *model.layers()[as_index(i)].layer;
      for (const NamedTensor& parameter : layer.parameters()) {
        const auto known = by_name.find(parameter.name);
        if (known != by_name.end() && known->second.back() != s) known->second.push_back(s);
        if (known == by_name.end() && layer.shares_by_name()) by_name[parameter.name] = {s};
      }
    }
  std::erase_if(by_name, [](const auto& entry) { return entry.second.size() == 1; });
  return by_name;
}

std::string name_of(DeviceSpec::Kind kind) {
  switch (kind) {
    case DeviceSpec::Kind::cpu:
      return "a CPU";
    case DeviceSpec::Kind::cuda:
      return "a GPU";
    case DeviceSpec::Kind::sleep:
      return "a sleeping device";
  }
  return "";
}

std::string how_it_rounds(const Device& device) {
  return device.spec().kind == DeviceSpec::Kind::cuda ? device.description().description
                                                      : name_of(device.spec().kind) + " with " + at::get_cpu_capability();
}

void mark_ends(std::vector<BoundAction>& row) {
  std::set<const StageReplica*> begun, marked;
  for (BoundAction& bound : row) bound.begins_replica = begun.insert(bound.stage).second;
  for (auto bound = row.rbegin(); bound != row.rend(); ++bound)
    if (bound->action.kind == ActionKind::backward || bound->action.kind == ActionKind::backward_weight)
      bound->ends_replica = marked.insert(bound->stage).second;
}

/// What the device's memory is used for next comes after the calling thread's work, such as an optimizer's.
void wait_for_caller(Device& device) noexcept {
  try {
    device.after(device.now_of_caller());
  } catch (...) {
    // A failed GPU works no more.
  }
}

}  // namespace

BoundGraph::BoundGraph(const Model& model, const Plan& plan, const PipelineOptions& options, std::vector<std::shared_ptr<Device>> devices)
    : plan_(plan), loss_(model.loss().computed_in(plan.options.precision)), reduce_(options.reduce), devices_(std::move(devices)) {
  if (options.ranks) {
    ranks_.emplace(options.ranks);
    rank_ = options.ranks->rank();
  }
  validate(plan_, model.size(), "plan for " + model.name());
  planner::validate_schedule(plan_, "plan for " + model.name());
  if (const std::string why = why_not_executable(plan_, kRuntime); !why.empty())
    throw Error("this plan cannot be run: " + why, "plan for " + model.name(), "choose another schedule");
  trained_alike_.assign(plan_.stages.size(), true);
  find_trained_alike();
  const profiler::ModelFlow flow(model.layers());
  stage_links_ = stage_links(flow, plan_.stages);
  tensors_ = stage_tensors(flow, plan_.stages);
  tied_stages_ = stages_of_tied(model, plan_.stages);
  for (int d = 0; d < static_cast<int>(devices_.size()); ++d)
    offloaded_.push_back(is_here(d) ? planner::offloaded(plan_, d) : std::vector<planner::Offloaded>());
  add_doorbells(options.link);
  add_workers(options);
  connect(options.connector != nullptr ? options.connector : profiler::nccl_connector());
  add_stages(model);
  add_lanes(options.link);
  add_links();
  add_host_channels();
  bind_rows();
  bind_offloads();
  if (direct_)
    watch_.emplace(ranks_->group(), kTagOfWatch, direct_->connected_ranks(),
                   [this](std::exception_ptr error) { (void)fail(std::move(error)); });
}

BoundGraph::~BoundGraph() {
  watch_.reset();
  drain();
  for (const auto& device : devices_) wait_for_caller(*device);
  // Frees the stages' tensors while the device threads that account for them still run.
  for (Replicas& replicas : stages_) replicas.clear();
}

// Optimizers of a CPU and of a GPU round differently, and so do those of CPUs with other vector instructions: what ranks train alike would
// drift apart, step by step. Kinds are known without the other ranks.
void BoundGraph::find_trained_alike() {
  std::vector<std::string> own, kinds;
  for (const auto& device : devices_) {
    kinds.push_back(name_of(device->spec().kind));
    own.push_back(is_here(static_cast<int>(own.size())) ? how_it_rounds(*device) : "");
  }
  compare_replicas(kinds);
  if (!ranks_) return;
  const std::vector<std::vector<std::string>> of_ranks = ranks_->exchange_lines(kTagOfConnections, own);
  std::vector<std::string> all;
  for (std::size_t d = 0; d < devices_.size(); ++d) all.push_back(of_ranks.at(as_index(devices_[d]->spec().rank))[d]);
  compare_replicas(all);
}

/// `how` each device rounds, in words. Stages whose devices differ are trained by one rank; an all-reduce of theirs is refused.
void BoundGraph::compare_replicas(const std::vector<std::string>& how) {
  for (int s = 0; s < plan_.num_stages(); ++s) {
    const std::vector<int>& devices = plan_.stages[as_index(s)].devices;
    const std::string& first = how[as_index(devices[0])];
    const auto other = std::ranges::find_if(devices, [&](int d) { return how[as_index(d)] != first; });
    if (other == devices.end()) continue;
    if (all_reduces(s))
      throw Error(
          "stage " + std::to_string(s) + " is trained on devices that round differently: " + first + " and " + how[as_index(*other)],
          device(*other).name(), "give --reduce ordered, or replicas on devices of one kind");
    trained_alike_[as_index(s)] = false;
  }
}

// Threads that share a core never spin: they would delay what they wait for. Sleeping devices have no cores of their own: the kernel wakes
// one on the core where another spins (on two cores steps of two devices took up to 4 % longer).
bool BoundGraph::threads_may_spin(std::size_t others) const {
  if (ranks_) return false;  // threads that talk to other ranks need the cores
  std::set<int> cores;
  std::size_t threads = others;
  for (const auto& device : devices_) {
    if (device->spec().kind == DeviceSpec::Kind::sleep) return false;
    threads += std::max<std::size_t>(1, device->spec().cores.size());
    for (const int core : device->spec().cores)
      if (!cores.insert(core).second) return false;
  }
  return threads <= available_cores().size();
}

std::size_t BoundGraph::copying_threads(const LinkThrottle& link) const {
  std::set<std::pair<int, int>> lanes;
  for (const Pair& pair : pairs()) {
    const auto [source, destination] = std::pair(pair.source, pair.destination);
    if (source == destination || !is_here(source) || !is_here(destination) ||
        !profiler::CopyLane::needs_thread(device(source), device(destination), link))
      continue;
    lanes.insert({source, destination});
    lanes.insert({destination, source});
  }
  std::size_t to_and_from_host = 0;
  for (std::size_t d = 0; d < devices_.size(); ++d)
    if (!offloaded_[d].empty() && profiler::CopyLane::needs_thread(*devices_[d], *devices_[d], link)) to_and_from_host += 2;
  return lanes.size() + to_and_from_host;
}

void BoundGraph::add_doorbells(const LinkThrottle& link) {
  const std::chrono::nanoseconds spin = threads_may_spin(copying_threads(link)) ? kSpinInStep : std::chrono::nanoseconds(0);
  for (std::size_t d = 0; d < devices_.size(); ++d) doorbells_.push_back(std::make_unique<profiler::Doorbell>(spin));
}

void BoundGraph::add_workers(const PipelineOptions& options) {
  // Beside the lanes' threads there is the caller's.
  const std::chrono::nanoseconds spin =
      threads_may_spin(copying_threads(options.link) + 1) ? kSpinBetweenSteps : std::chrono::nanoseconds(0);
  for (const auto& device : devices_) {
    if (!is_here(static_cast<int>(workers_.size()))) {
      workers_.push_back(nullptr);
      continue;
    }
    if (const auto cap = options.memory_bytes.find(device->name()); cap != options.memory_bytes.end()) device->set_memory_cap(cap->second);
    workers_.push_back(std::make_unique<profiler::DeviceWorker>(device, spin));
    if (!plan_.options.threads.empty()) workers_.back()->use_threads(plan_.options.threads[workers_.size() - 1]);
  }
}

void BoundGraph::add_stages(const Model& model) {
  stages_.resize(plan_.stages.size());
  for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
    const Stage& stage = plan_.stages[s];
    const bool last = s + 1 == plan_.stages.size();
    stages_[s].resize(stage.devices.size());
    for (std::size_t r = 0; r < stage.devices.size(); ++r) {
      if (!is_here(stage.devices[r])) continue;
      workers_[as_index(stage.devices[r])]->run([&] {
        stages_[s][r] = std::make_unique<StageReplica>(model, device(stage.devices[r]), stage, static_cast<int>(s), static_cast<int>(r),
                                                       last ? std::optional<Loss>(loss_) : std::nullopt,
                                                       weight_order(plan_, static_cast<int>(s), stage.devices[r]), plan_.options);
      });
    }
  }
}

void BoundGraph::add_host_channels() {
  for (std::size_t d = 0; d < devices_.size(); ++d)
    for (const planner::Offloaded& each : offloaded_[d]) {
      const int device = static_cast<int>(d);
      auto& channel =
          host_channels_[stages_[as_index(each.stage)][as_index(replica_of(plan_.stages[as_index(each.stage)], each.microbatch))].get()];
      if (channel) continue;
      channel = std::make_unique<MailboxChannel>(plan_.num_microbatches(),
                                                 MailboxChannel::Direction{lanes_.at({device, kHostMemory}).get(), &doorbell(device)},
                                                 MailboxChannel::Direction{lanes_.at({kHostMemory, device}).get(), &doorbell(device)},
                                                 [this](std::exception_ptr error) { (void)fail(std::move(error)); });
    }
}

void BoundGraph::bind_offloads() {
  for (std::size_t d = 0; d < devices_.size(); ++d)
    for (const planner::Offloaded& each : offloaded_[d]) {
      const auto at = [&](int position) -> BoundAction& { return rows_[d][as_index(position)]; };
      StageReplica* const stage = at(each.forward).stage;
      const BoundOffload bound{stage, host_channels_.at(stage).get(), each.microbatch};
      at(each.forward).host = at(each.backward).host = bound.host;
      at(each.freed()).frees.push_back(bound);
      at(each.fetched()).fetches.push_back(bound);
    }
}

void BoundGraph::bind_rows() {
  for (const auto& row : plan_.actions) {
    auto& bound_row = rows_.emplace_back();
    if (!is_here(static_cast<int>(rows_.size()) - 1)) continue;
    for (const Action& action : row) {
      const auto s = as_index(action.stage);
      BoundAction bound;
      bound.action = action;
      bound.text = planner::to_text(action);
      bound.stage = stages_[s][as_index(replica_of(plan_.stages[s], action.microbatch))].get();
      bound.tensors = &tensors_[s];
      bound.computes_loss = s + 1 == plan_.stages.size();
      for (const StageLink& link : stage_links_) {
        if (link.back == action.stage) bound.before.push_back(link_for(link, action.microbatch));
        if (link.front == action.stage) bound.behind.push_back(link_for(link, action.microbatch));
      }
      bound_row.push_back(std::move(bound));
    }
    mark_ends(bound_row);
  }
}

int BoundGraph::device_of(const StageReplica& replica) const {
  return plan_.stages[as_index(replica.stage())].devices[as_index(replica.replica())];
}

StageReplica* BoundGraph::trained(int stage) const {
  const Replicas& all = stages_.at(as_index(stage));
  if (!trained_alike_[as_index(stage)]) return all[0].get();
  const auto here = std::ranges::find_if(all, [](const auto& replica) { return replica != nullptr; });
  return here == all.end() ? nullptr : here->get();
}

std::vector<int> BoundGraph::ranks_training(int stage) const {
  std::vector<int> ranks{rank_of(stage, 0)};
  if (!trained_alike_[as_index(stage)]) return ranks;
  for (const int d : plan_.stages[as_index(stage)].devices)
    if (std::ranges::find(ranks, rank_of(d)) == ranks.end()) ranks.push_back(rank_of(d));
  return ranks;
}

bool BoundGraph::has_replicas() const {
  return std::ranges::any_of(stages_, [](const Replicas& replicas) { return replicas.size() > 1; });
}

void BoundGraph::for_devices(const std::function<void(int device)>& work, const std::function<void()>& meanwhile) {
  // Done before workers get `work`, a reference: from then on this function must wait for them.
  callers_.clear();
  try {
    for (const auto& device : devices_) callers_.push_back(device->now_of_caller());  // null of other ranks'
  } catch (...) {
    return (void)fail(std::current_exception());
  }
  for (std::size_t d = 0; d < workers_.size(); ++d) {
    if (!workers_[d]) continue;
    workers_[d]->post([this, &work, d] {
      try {
        devices_[d]->after(callers_[d]);
        work(static_cast<int>(d));
        wait_for(devices_[d]->now());
      } catch (...) {
        (void)fail(std::current_exception());
      }
    });
  }
  if (meanwhile) meanwhile();
  for (auto& worker : workers_)
    if (worker) (void)worker->wait();
}

void BoundGraph::after_caller(int device, int other) {
  devices_[as_index(device)]->after(callers_[as_index(other)]);
}

bool BoundGraph::fail(std::exception_ptr error) {
  if (is_cancelled(error)) return false;
  // Whoever lets go of the error last frees its text: read here before another thread has it.
  const Error for_ranks = error_for_ranks(error);
  if (!first_error_.set(std::move(error))) return false;
  for (BoundLink* link : links()) link->channel->cancel();
  for (auto& [stage, channel] : host_channels_) channel->cancel();
  if (direct_) direct_->abort();
  for (Replicas& replicas : stages_)
    for (auto& replica : replicas)
      if (replica) replica->pending_weights().cancel();
  ring_all();
  if (ranks_) ranks_->group().give_up(for_ranks);
  return true;
}

void BoundGraph::ring_all() {
  for (auto& bell : doorbells_) bell->ring();
}

void BoundGraph::drain() {
  for (auto& [ends, lane] : lanes_) lane->drain();
}

void BoundGraph::recover() {
  drain();
  // A copy that failed while the lanes drained belongs to the step that is over.
  (void)first_error_.take();
  for_devices([this](int device) {
    for (Replicas& replicas : stages_)
      for (auto& replica : replicas)
        if (replica && device_of(*replica) == device) replica->abandon();
  });
  // The error that ended the step is reported, not those of the clean-up. These cancel the channels, too.
  (void)first_error_.take();
  for (BoundLink* link : links()) link->channel->reset();
  for (auto& [stage, channel] : host_channels_) channel->reset();
}

}  // namespace mptune::tuner
