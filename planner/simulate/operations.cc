#include "planner/simulate/operations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "planner/cost/stage_need.h"
#include "planner/plan/helping.h"
#include "planner/plan/offload.h"
#include "planner/plan/plan_error.h"
#include "planner/schedule/messages.h"
#include "planner/simulate/stage_prices.h"
#include "planner/simulate/step_end.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

class Lister : MessageVisitor {
 public:
  Lister(const Plan& plan, const CostModel& cost, Messages messages)
      : plan_(plan),
        cost_(cost),
        microbatches_(plan.microbatch_sizes.size()),
        devices_(cost.device_indices(plan.devices)),
        made_(plan.stages.size() * microbatches_, kMissing),
        input_gradients_of_(made_),
        before_(plan.stages.size()),
        behind_(plan.stages.size()),
        messages_(std::move(messages)) {
    if (plan.options.idle_devices_help) result_.helpers = helping_groups(plan.devices, plan.options.threads);
    add_flows();
    result_.devices = static_cast<int>(plan.devices.size());
    result_.lanes = result_.devices;
    lanes_from_.resize(plan.devices.size());
    priced_.resize(plan.devices.size());
    rows_.resize(plan.devices.size());
    for (int d = 0; d < result_.devices && offloads(plan); ++d) rows_[as_index(d)].offloaded = offloaded(plan, d);
    for (const int device : devices_) {
      result_.neighbours.push_back(cost.neighbours(device));
      result_.weights.push_back(cost.weight(device));
      overheads_.push_back(to_ns(cost.action_seconds(device)));
      result_.step_ns = std::max(result_.step_ns, to_ns(cost.step_seconds(device)));
    }
    result_.list.reserve(plan.stages.size() * microbatches_ * 5);
  }

  Operations list() {
    messages_.microbatches == 0 ? list_actions() : list_with_messages();
    add_step_end(plan_, cost_, devices_, result_);
    return std::move(result_);
  }

 private:
  static constexpr int kMissing = -2;  // not made yet
  static constexpr int kNothing = -1;  // needs no input

  [[nodiscard]] const Stage& stage(int s) const { return plan_.stages[as_index(s)]; }
  [[nodiscard]] const StageFlow& flow(int f) const { return result_.flows[as_index(f)]; }
  // The first argument is a stage or a flow.
  [[nodiscard]] std::size_t slot(int s, int microbatch) const { return as_index(s) * microbatches_ + as_index(microbatch); }

  void add_flows() {
    result_.flows = stage_flows(cost_, plan_.stages);
    for (std::size_t f = 0; f < result_.flows.size(); ++f) {
      before_[as_index(result_.flows[f].back)].push_back(static_cast<int>(f));
      behind_[as_index(result_.flows[f].front)].push_back(static_cast<int>(f));
    }
    output_of_.assign(result_.flows.size() * microbatches_, kMissing);
    gradient_of_ = output_of_;
    copied_.resize(2 * result_.flows.size());
  }

  // How far a device's row is listed.
  struct Row {
    std::size_t next = 0;
    int last = kNothing;                  // last operation in its lane
    std::vector<Offloaded> offloaded;     // by position of the forwards
    std::vector<int> to_host;             // copies to the host of the first of these, whose forwards are listed
    int from_host = kNothing;             // the last copy back
    std::array<int, 2> lanes = {-1, -1};  // lanes of copies to the host, and back
    std::int64_t delay_ns = 0;            // delay by copies that began since the last action
    std::vector<int> waited;              // copies of messages that the device waited for since the last action
  };

  // Devices take turns; each lists its actions until an input is missing. Every order of turns gives the same times.
  void list_actions() {
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t d = 0; d < rows_.size(); ++d) {
        const std::vector<Action>& row = plan_.actions[d];
        std::size_t& next = rows_[d].next;
        while (next < row.size() && add_action(static_cast<int>(d), row[next])) {
          ++next;
          progress = true;
        }
      }
    }
  }

  // Other runtimes have rules of their own for when a device sends and receives. A copy then waits for what its two ends did before they
  // posted it, and an action for the messages that its device waited for.
  void list_with_messages() {
    posted_.resize(as_index(messages_.count()));
    const std::vector<std::size_t> done = walk(messages_, *this);
    for (std::size_t d = 0; d < done.size(); ++d)
      if (done[d] < messages_.devices[d].size())
        throw PlanError(
            std::string(name_of(messages_.runtime)) + " never ends the schedule " + plan_.schedule + ": " + deadlock_of(plan_, messages_),
            plan_.schedule, "use another schedule");
  }

  void compute(int device, int action) override {
    Row& row = rows_[as_index(device)];
    row.next = as_index(action);
    (void)add_action(device, plan_.actions[as_index(device)][row.next]);
    row.waited.clear();
  }

  void post(int device, int message) override {
    const Row& row = rows_[as_index(device)];
    std::vector<int>& after = posted_[as_index(message)].after;
    if (row.last != kNothing) after.push_back(row.last);
    after.insert(after.end(), row.waited.begin(), row.waited.end());
  }

  void move(int message, const std::vector<int>& before) override {
    Posted& posted = posted_[as_index(message)];
    const int flow = messages_.flow_of(message);
    const bool gradient = messages_.is_gradient(message);
    const int microbatch = messages_.microbatch_of(message);
    const int producer = gradient ? input_gradients_of_[slot(result_.flows[as_index(flow)].back, microbatch)]
                                  : made_[slot(result_.flows[as_index(flow)].front, microbatch)];
    posted.copy = add_copy(flow, gradient, microbatch, producer);
    (gradient ? gradient_of_ : output_of_)[slot(flow, microbatch)] = posted.copy;
    for (const int earlier : before) posted.after.push_back(posted_[as_index(earlier)].copy);
    std::ranges::sort(posted.after);
    const auto repeated = std::ranges::unique(posted.after);
    posted.after.erase(repeated.begin(), repeated.end());
    for (const int until : posted.after)
      if (until != producer) result_.waits.push_back({posted.copy, until});
  }

  void wait(int device, int message) override { rows_[as_index(device)].waited.push_back(posted_[as_index(message)].copy); }

  bool add_action(int device, const Action& action) {
    if (action.kind == ActionKind::forward) return add_forward(device, action);
    if (action.kind == ActionKind::backward_weight) return add_weight_gradient(device, action);
    return add_backward(device, action);
  }

  // The operations that bring what an action reads.
  struct Inputs {
    int first = kNothing;
    std::vector<int> others = {};
    bool missing = false;

    void add(int operation) {
      missing = missing || operation == kMissing;
      first == kNothing ? void(first = operation) : others.push_back(operation);
    }
  };

  bool add_forward(int device, const Action& action) {
    const int s = action.stage;
    Inputs inputs;
    for (const int f : before_[as_index(s)]) inputs.add(output_of_[slot(f, action.microbatch)]);
    if (inputs.missing) return false;
    begin_action(device, inputs);
    const int made = add_work(EventKind::forward, device, action, inputs.first, priced(s, action.microbatch).forward, true);
    add_waits(made, inputs);
    add_copy_to_host(device, made);
    made_[slot(s, action.microbatch)] = made;
    for (const int f : behind_[as_index(s)]) send(f, false, action.microbatch, made);
    return true;
  }

  // Adds a full backward, or the input gradients of a split one: the previous stage waits for either. With layers 0 to 4, of which 1, 3
  // and 4 are recomputed:
  //     recompute 3 4 (early) | gradient arrives | backward 4 3 2, recompute 1, backward 1 0
  // The fixed cost of the action, most of which starts autograd's engine, comes when the gradient is there.
  bool add_backward(int device, const Action& action) {
    const int s = action.stage;
    Inputs inputs;
    for (const int f : behind_[as_index(s)])
      if (flow(f).needs_gradient) inputs.add(gradient_of_[slot(f, action.microbatch)]);
    if (inputs.first == kNothing) inputs.add(made_[slot(s, action.microbatch)]);
    if (inputs.missing) return false;
    const StagePrices prices = priced(s, action.microbatch);
    const bool recomputed = recomputes(stage(s).recompute, action.microbatch);
    const bool early = recomputed && first_recomputed_early(stage(s)) < stage(s).last_layer;
    if (early) add_early(device, action, prices.early);
    if (!early) begin_action(device, inputs);
    const bool whole = action.kind == ActionKind::backward;
    Price work = whole ? prices.backward : prices.input;
    if (recomputed) work = {work.alone + prices.inside.alone, work.extra + prices.inside.extra};
    const int made = add_work(whole ? EventKind::backward : EventKind::backward_input, device, action, inputs.first, work, true);
    add_waits(made, inputs);
    input_gradients_of_[slot(s, action.microbatch)] = made;
    for (const int f : before_[as_index(s)])
      if (flow(f).needs_gradient) send(f, true, action.microbatch, made);
    return true;
  }

  // Other runtimes send between devices when both of them have posted the message.
  void send(int f, bool gradient, int microbatch, int producer) {
    const Stage& front = stage(flow(f).front);
    const Stage& back = stage(flow(f).back);
    if (messages_.microbatches > 0 && device_of(front, microbatch) != device_of(back, microbatch)) return;
    (gradient ? gradient_of_ : output_of_)[slot(f, microbatch)] = add_copy(f, gradient, microbatch, producer);
  }

  void add_early(int device, const Action& action, const Price& price) {
    Inputs inputs;
    begin_action(device, inputs);
    const int made = add_work(EventKind::recompute, device, action, kNothing, price, false);
    add_waits(made, inputs);
  }

  // The action needs the input gradients of the same micro-batches, which come earlier in the same row.
  bool add_weight_gradient(int device, const Action& action) {
    Price whole;
    for (int i = action.microbatch; i <= action.last_microbatch(); ++i) {
      if (input_gradients_of_[slot(action.stage, i)] == kMissing) return false;
      const Price& one = priced(action.stage, i).weight;
      whole = {whole.alone + one.alone, whole.extra + one.extra};
    }
    if (action.further > 0) whole = part_of(whole, std::max<std::int64_t>(0, whole.alone - to_ns(saved_seconds(device, action))));
    Inputs inputs;
    begin_action(device, inputs);
    if (result_.helpers.empty() || result_.helpers[as_index(device)] < 0)
      add_waits(add_work(EventKind::backward_weight, device, action, kNothing, whole, true), inputs);
    else
      add_layers(device, action, whole, inputs);
    return true;
  }

  [[nodiscard]] std::span<const int> samples_of(const Action& action) const {
    return std::span(plan_.microbatch_sizes).subspan(as_index(action.microbatch), as_index(action.further) + 1);
  }

  // Returns what fusing an action's micro-batches saves. The result is negative where fusing costs time.
  [[nodiscard]] double saved_seconds(int device, const Action& action) const {
    const Stage& of = stage(action.stage);
    const int index = devices_[as_index(device)];
    double saved = 0;
    for (int layer = of.first_layer; layer < of.last_layer; ++layer) {
      double single_s = 0;
      for (const int samples : samples_of(action)) single_s += cost_.layer(index, layer, samples).backward_weight_s;
      saved += single_s - cost_.fused_weight_seconds(index, layer, samples_of(action));
    }
    return saved;
  }

  // A layer's part of the whole is in proportion to its time; layers that take no time are left out. At least one remains.
  void add_layers(int device, const Action& action, const Price& whole, const Inputs& inputs) {
    const Stage& of = stage(action.stage);
    std::vector<double> upto;
    double sum = 0;
    for (int layer = of.last_layer - 1; layer >= of.first_layer; --layer)
      upto.push_back(sum += cost_.fused_weight_seconds(devices_[as_index(device)], layer, samples_of(action)));
    Price placed;
    for (std::size_t k = 0; k < upto.size(); ++k) {
      const int layer = of.last_layer - 1 - static_cast<int>(k);
      const double share = sum > 0 ? upto[k] / sum : 0;
      const bool last = layer == of.first_layer;
      const Price end =
          last ? whole
               : Price{std::llround(static_cast<double>(whole.alone) * share), std::llround(static_cast<double>(whole.extra) * share)};
      const Price part{end.alone - placed.alone, end.extra - placed.extra};
      if (part.alone == 0 && !(last && placed.alone == 0)) continue;
      placed = end;
      const int made = add_work(EventKind::backward_weight, device, action, last_input_gradients(action), part, true);
      result_.list[as_index(made)].layer = layer;
      add_waits(made, inputs);
    }
  }

  // Operations of one row are listed in its order.
  [[nodiscard]] int last_input_gradients(const Action& action) const {
    int last = kMissing;
    for (int i = action.microbatch; i <= action.last_microbatch(); ++i) last = std::max(last, input_gradients_of_[slot(action.stage, i)]);
    return last;
  }

  int add(const Operation& operation) {
    result_.list.push_back(operation);
    const int made = static_cast<int>(result_.list.size()) - 1;
    if (operation.lane < result_.devices) rows_[as_index(operation.lane)].last = made;
    return made;
  }

  // Adds what the first operation of a device's next action waits for because of offloaded activations, and the copy back that begins with
  // it.
  void begin_action(int device, Inputs& inputs) {
    Row& row = rows_[as_index(device)];
    const int position = static_cast<int>(row.next);
    inputs.others.insert(inputs.others.end(), row.waited.begin(), row.waited.end());
    for (std::size_t k = 0; k < row.to_host.size(); ++k) {
      if (row.offloaded[k].freed() == position) inputs.others.push_back(row.to_host[k]);
      if (row.offloaded[k].backward == position) inputs.others.push_back(row.from_host);
    }
    for (std::size_t k = 0; k < row.to_host.size(); ++k)
      if (row.offloaded[k].fetched() == position) add_copy_back(device, k, inputs);
  }

  // The memory was free before, so the copy to the host has ended.
  void add_copy_back(int device, std::size_t k, const Inputs& inputs) {
    Row& row = rows_[as_index(device)];
    const int before = row.last;
    row.from_host = add_host_copy(device, row.offloaded[k], HostCopy::from_host, row.to_host[k]);
    std::vector<int> all = inputs.others;
    all.insert(all.end(), {before, inputs.first});
    std::ranges::sort(all);
    const auto repeated = std::ranges::unique(all);
    for (auto until = all.begin(); until != repeated.begin(); ++until)
      if (*until >= 0) result_.waits.push_back({row.from_host, *until});
  }

  void add_copy_to_host(int device, int forward) {
    Row& row = rows_[as_index(device)];
    const std::size_t k = row.to_host.size();
    if (k == row.offloaded.size() || as_index(row.offloaded[k].forward) != row.next) return;
    row.to_host.push_back(add_host_copy(device, row.offloaded[k], HostCopy::to_host, forward));
  }

  int add_host_copy(int device, const Offloaded& of, HostCopy host, int input) {
    const bool to_host = host == HostCopy::to_host;
    const int index = devices_[as_index(device)];
    int& lane = rows_[as_index(device)].lanes[to_host ? 0 : 1];
    if (lane < 0) lane = cost_.copies().makes_host_copies(index, to_host) ? device : result_.lanes++;
    Operation copy;
    copy.kind = EventKind::copy;
    copy.host = host;
    copy.device = device;
    copy.lane = lane;
    copy.stage = of.stage;
    copy.microbatch = of.microbatch;
    copy.input = input;
    copy.bytes = offloaded_bytes(cost_, index, stage(of.stage), plan_.microbatch_sizes[as_index(of.microbatch)]);
    copy.alone_ns = to_ns(cost_.copies().host_seconds(index, to_host, copy.bytes));
    rows_[as_index(device)].delay_ns += to_ns(cost_.copies().host_delay_seconds(index, to_host, copy.bytes));
    return add(copy);
  }

  int add_work(EventKind kind, int device, const Action& action, int input, const Price& price, bool starts_action) {
    Operation operation;
    operation.kind = kind;
    operation.device = device;
    operation.lane = device;
    operation.stage = action.stage;
    operation.microbatch = action.microbatch;
    operation.further = action.further;
    operation.input = input;
    if (starts_action) operation.overhead_ns = overheads_[as_index(device)] + std::exchange(rows_[as_index(device)].delay_ns, 0);
    operation.alone_ns = operation.overhead_ns + price.alone;
    operation.extra_ns = price.extra;
    result_.interferes |= price.extra > 0;
    return add(operation);
  }

  void add_waits(int operation, const Inputs& inputs) {
    for (const int until : inputs.others) result_.waits.push_back({operation, until});
  }

  // Adds a copy unless producer and consumer are on one device. Returns the operation whose end makes the data available to the consumer.
  int add_copy(int f, bool gradient, int microbatch, int producer) {
    const int from = gradient ? flow(f).back : flow(f).front;
    const int source = device_of(stage(from), microbatch);
    const int destination = device_of(stage(gradient ? flow(f).front : flow(f).back), microbatch);
    if (source == destination) return producer;
    const Copied& known = copied(f, gradient, source, destination, plan_.microbatch_sizes[as_index(microbatch)]);
    Operation copy;
    copy.kind = EventKind::copy;
    copy.device = source;
    copy.destination = destination;
    copy.lane = lane_of_copies(source, destination);
    copy.stage = from;
    copy.microbatch = microbatch;
    copy.input = producer;
    copy.flow = f;
    copy.bytes = known.bytes;
    copy.alone_ns = known.ns;
    return add(copy);
  }

  struct Copied {
    int source = -1;
    int destination = -1;
    int samples = 0;
    std::int64_t bytes = 0;
    std::int64_t ns = 0;
  };

  // Keeps the price of the last copy of each flow and direction: the next one costs the same unless replicas or uneven sizes differ.
  const Copied& copied(int f, bool gradient, int source, int destination, int samples) {
    Copied& last = copied_[2 * as_index(f) + (gradient ? 1 : 0)];
    if (last.source == source && last.destination == destination && last.samples == samples) return last;
    const std::int64_t bytes = flow(f).bytes(samples, gradient);
    const double seconds = cost_.copy_seconds(devices_[as_index(source)], devices_[as_index(destination)], bytes);
    return last = {source, destination, samples, bytes, to_ns(seconds)};
  }

  // A device sends to few other devices, so a short list is faster than a table of all pairs.
  int& known_lane(int source, int destination) {
    std::vector<std::pair<int, int>>& lanes = lanes_from_[as_index(source)];
    for (auto& [to, lane] : lanes)
      if (to == destination) return lane;
    return lanes.emplace_back(destination, -1).second;
  }

  int lane_of_copies(int source, int destination) {
    if (cost_.copies().sender_copies(devices_[as_index(source)], devices_[as_index(destination)])) return source;
    int& lane = known_lane(source, destination);
    if (lane >= 0) return lane;
    const int medium = cost_.copies().medium(devices_[as_index(source)], devices_[as_index(destination)]);
    if (medium < 0) return lane = result_.lanes++;
    const auto found = media_.find(medium);
    result_.queues |= found != media_.end();
    return lane = found != media_.end() ? found->second : media_[medium] = result_.lanes++;
  }

  const StagePrices& priced(int s, int microbatch) {
    const int samples = plan_.microbatch_sizes[as_index(microbatch)];
    const int device = device_of(stage(s), microbatch);
    std::vector<Priced>& of_device = priced_[as_index(device)];
    for (const Priced& known : of_device)
      if (known.stage == s && known.samples == samples) return known.prices;
    const bool slowed = result_.neighbours[as_index(device)] > 0;
    of_device.push_back({s, samples, stage_prices(stage(s), cost_, devices_[as_index(device)], samples, slowed)});
    return of_device.back().prices;
  }

  struct Priced {
    int stage;
    int samples;
    StagePrices prices;
  };

  const Plan& plan_;
  const CostModel& cost_;
  std::size_t microbatches_;
  std::vector<int> devices_;                                  // indices in the profile
  std::vector<std::int64_t> overheads_;                       // overhead of an action, per device
  std::vector<Row> rows_;                                     // per device
  std::vector<std::vector<std::pair<int, int>>> lanes_from_;  // per device: destinations and the lanes of copies to them
  std::map<int, int> media_;                                  // lanes of the media that links share
  std::vector<int> made_;                                     // by stage and micro-batch: the forward
  std::vector<int> input_gradients_of_;                       // by stage and micro-batch: operation that makes the gradients of the inputs
  std::vector<std::vector<int>> before_;                      // flows to each stage
  std::vector<std::vector<int>> behind_;                      // flows from each stage
  std::vector<int> output_of_;               // by flow and micro-batch: operation that brings the output to the back stage's device
  std::vector<int> gradient_of_;             // by flow and micro-batch: operation that brings the gradient to the front stage's device
  std::vector<std::vector<Priced>> priced_;  // per device
  std::vector<Copied> copied_;               // by flow and direction
  Messages messages_;                        // of another runtime; empty for this project's
  struct Posted {
    std::vector<int> after;  // operations before the posts at both ends
    int copy = kMissing;
  };
  std::vector<Posted> posted_;  // per message
  Operations result_;
};

}  // namespace

std::int64_t to_ns(double seconds) {
  return std::llround(seconds * 1e9);
}

Operations list_operations(const Plan& plan, const CostModel& cost, Messages messages) {
  cost.require_countable(plan.global_batch_size());
  Operations operations = Lister(plan, cost, std::move(messages)).list();
  if (operations.queues || !operations.helpers.empty()) choose_order(operations);
  return operations;
}

Operations list_operations(const Plan& plan, const CostModel& cost, Runtime runtime) {
  if (runtime == Runtime::mptune) return list_operations(plan, cost, Messages());
  std::vector<MessageFlow> flows;
  for (const StageFlow& flow : stage_flows(cost, plan.stages)) flows.push_back({flow.front, flow.back, flow.needs_gradient});
  return list_operations(plan, cost, messages_of(plan, std::move(flows), runtime));
}

}  // namespace mptune::planner
