#include "profiler/trace/formats/pipeline_edges.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

using Indices = std::vector<int>;

// Time stamps of different lanes are off by up to this much, so a producer may seem to end that much after its consumer starts.
constexpr Nanoseconds kClockError = std::chrono::milliseconds{1};

// A group of n members has up to 2 n^2 + n edges; this many take 200 MB.
constexpr std::size_t kMostGroupEdges = std::size_t{1} << 24;

class EdgeBuilder {
 public:
  EdgeBuilder(std::vector<PipelineItem>& items, const PipelineOperations& from)
      : items_(items), where_(from.where), last_stage_(from.stages - 1), last_chunk_(from.chunks - 1) {}

  std::vector<Edge> build() {
    collect();
    require_reason();
    for (const auto& [lane, members] : lanes_)
      for (std::size_t k = 1; k < members.size(); ++k) add(members[k - 1], members[k], EdgeKind::order);
    for (const auto& [key, copies] : sent_) connect_senders(key, copies);
    for (const auto& [key, copies] : received_) connect_receivers(key, copies);
    for (const auto& [group, members] : groups_) connect_group(members);
    name_copies();
    return std::move(edges_);
  }

  [[nodiscard]] std::int64_t unmatched() const { return unmatched_; }

 private:
  using Key = std::tuple<int, int, bool>;  // step, device, forwards

  const PipelineItem& item(int index) const { return items_[as_index(index)]; }

  void add(int producer, int consumer, EdgeKind kind) {
    if (producer < consumer)
      edges_.push_back({producer, consumer, kind});
    else
      ++unmatched_;
  }

  void collect() {
    for (int i = 0; i < static_cast<int>(items_.size()); ++i) {
      const PipelineItem& one = item(i);
      const int step = one.operation.step;
      lanes_[{one.event.device, one.event.lane}].push_back(i);
      if (one.event.lane == kComputeLane) first_of_step_.try_emplace({step, one.event.device}, i);
      if (one.event.kind == EventKind::forward) consumers_[{step, one.event.device, one.operation.chunk}].push_back(i);
      if (one.event.kind == EventKind::optimizer) consumers_[{step, one.event.device, -1}].push_back(i);
      if (one.group >= 0) groups_[one.group].push_back(i);
      if (one.event.kind == EventKind::forward || one.event.kind == EventKind::backward)
        computes_[{step, one.event.device, one.event.kind == EventKind::forward}].push_back(i);
      if (one.receiver < 0) continue;
      const bool forwards = one.operation.kind == OperationKind::forward_send;
      sent_[{step, one.event.device, forwards}].push_back(i);
      received_[{step, one.receiver, forwards}].push_back(i);
    }
  }

  void require_reason() const {
    std::size_t most = 0;
    for (const auto& [group, members] : groups_) most += members.size() * (2 * members.size() + 1);
    if (most > kMostGroupEdges)
      throw Error("the collectives have more than 16 million dependencies", where_, "give a part of the timeline, fewer steps at a time");
  }

  // Returns computations whose result goes to another worker (`leaves`), or whose input comes from one. The model's first and last do not.
  Indices crossing(const Key& key, bool leaves) const {
    const auto found = computes_.find(key);
    if (found == computes_.end()) return {};
    const bool at_the_back = std::get<2>(key) == leaves;
    Indices result;
    std::copy_if(found->second.begin(), found->second.end(), std::back_inserter(result), [&](int i) {
      const PipelineOperation& operation = item(i).operation;
      return at_the_back ? operation.stage != last_stage_ || operation.chunk != last_chunk_ : operation.stage != 0 || operation.chunk != 0;
    });
    return result;
  }

  void match_microbatches(Indices& copies, Indices& computes) const {
    const auto known = [&](int i) { return item(i).operation.microbatch >= 0; };
    if (!std::all_of(copies.begin(), copies.end(), known) || !std::all_of(computes.begin(), computes.end(), known)) return;
    const auto before = [&](int a, int b) { return item(a).operation.microbatch < item(b).operation.microbatch; };
    std::stable_sort(copies.begin(), copies.end(), before);
    std::stable_sort(computes.begin(), computes.end(), before);
  }

  void connect_senders(const Key& key, Indices copies) {
    Indices computes = crossing(key, true);
    match_microbatches(copies, computes);
    for (std::size_t k = 0; k < std::min(copies.size(), computes.size()); ++k) {
      add(computes[k], copies[k], EdgeKind::data);
      PipelineOperation& copy = items_[as_index(copies[k])].operation;
      copy.chunk = item(computes[k]).operation.chunk;
      if (copy.microbatch < 0) sender_microbatch_.emplace_back(copies[k], item(computes[k]).operation.microbatch);
    }
  }

  void connect_receivers(const Key& key, Indices copies) {
    Indices computes = crossing(key, false);
    match_microbatches(copies, computes);
    const auto found = computes_.find(key);
    for (std::size_t k = 0; k < std::min(copies.size(), computes.size()); ++k) {
      add(copies[k], computes[k], EdgeKind::data);
      const auto at = std::lower_bound(found->second.begin(), found->second.end(), computes[k]);
      // A receive starts when the computation before the one that needs it has ended.
      if (at != found->second.begin()) add(*std::prev(at), copies[k], EdgeKind::order);
    }
  }

  // Returns the last computation that had ended when `collective` started; for parameters, one of an earlier step.
  int producer_of(const PipelineItem& collective) const {
    const auto found = lanes_.find({collective.event.device, kComputeLane});
    if (found == lanes_.end()) return -1;
    const Indices& lane = found->second;
    const Nanoseconds limit = collective.event.start + kClockError;
    auto at = std::partition_point(lane.begin(), lane.end(), [&](int i) { return item(i).event.start <= collective.event.start; });
    if (collective.is_gather) {
      const auto first = first_of_step_.find({collective.operation.step, collective.event.device});
      if (first != first_of_step_.end()) at = std::min(at, std::lower_bound(lane.begin(), lane.end(), first->second));
    }
    // Computations overlap by at most the clock's error, so one of the last few before the start has ended.
    for (int tries = 0; at != lane.begin() && tries < 3; ++tries)
      if (item(*--at).event.end() <= limit) return *at;
    return -1;
  }

  // Returns what waits for the collective: for parameters the first forward of their chunk, for gradients the optimizer.
  int consumer_of(int index) const {
    const PipelineItem& collective = item(index);
    const int chunk = collective.is_gather ? collective.operation.chunk : -1;
    const auto found = consumers_.find({collective.operation.step, collective.event.device, chunk});
    if (found == consumers_.end()) return -1;
    const auto at = std::lower_bound(found->second.begin(), found->second.end(), index);
    return at == found->second.end() ? -1 : *at;
  }

  // Connects a group: a collective starts when all members have arrived, so each waits for the producers of all.
  void connect_group(const Indices& members) {
    Indices producers;
    for (const int member : members) {
      const Indices& lane = lanes_[{item(member).event.device, item(member).event.lane}];
      const auto at = std::lower_bound(lane.begin(), lane.end(), member);
      if (at != lane.begin()) producers.push_back(*std::prev(at));
      if (const int producer = producer_of(item(member)); producer >= 0) producers.push_back(producer);
      if (const int consumer = consumer_of(member); consumer >= 0) add(member, consumer, EdgeKind::data);
    }
    for (const int member : members) {
      for (const int producer : producers)
        if (producer < member) add(producer, member, EdgeKind::data);
    }
  }

  // Called last: until then receivers are matched by the micro-batches that the file states.
  void name_copies() {
    for (const auto& [copy, microbatch] : sender_microbatch_) items_[as_index(copy)].operation.microbatch = microbatch;
  }

  std::vector<PipelineItem>& items_;
  const std::string& where_;
  int last_stage_;
  int last_chunk_;
  std::map<std::pair<int, int>, Indices> lanes_;
  std::map<Key, Indices> computes_;
  std::map<Key, Indices> sent_;
  std::map<Key, Indices> received_;
  std::map<std::pair<int, int>, int> first_of_step_;        // by step, device
  std::map<std::tuple<int, int, int>, Indices> consumers_;  // by step, device, chunk of a forward, -1: optimizers
  std::map<int, Indices> groups_;
  std::vector<std::pair<int, int>> sender_microbatch_;
  std::vector<Edge> edges_;
  std::int64_t unmatched_ = 0;
};

}  // namespace

std::vector<Edge> pipeline_edges(std::vector<PipelineItem>& items, const PipelineOperations& from, std::int64_t& unmatched) {
  EdgeBuilder builder(items, from);
  std::vector<Edge> edges = builder.build();
  unmatched = builder.unmatched();
  return edges;
}

}  // namespace mptune::profiler
