#include "profiler/trace/formats/action_places.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/ranks/looped_order.h"

namespace mptune::profiler {
namespace {

constexpr int kMostChunksTried = 8;
// A larger number of chunks has to explain this much more of the time before actions start.
constexpr double kExplainsMore = 0.9;

bool is_weights(const TimedAction& action) {
  return action.kind == EventKind::backward_weight;
}

bool is_forward(const TimedAction& action) {
  return action.kind == EventKind::forward;
}

// Returns how many actions of one kind there are in the rank and iteration that has most.
int most_of_a_kind(const std::vector<TimedAction>& actions) {
  int most = 0;
  for (const TimedAction& action : actions) most = std::max(most, action.nth + 1);
  return most;
}

// Sets the micro-batches and chunks that the file does not say.
void name_actions(std::vector<TimedAction>& actions, int ranks, int chunks, int microbatches) {
  const std::vector<std::pair<int, int>> order = looped_order(ranks, chunks, microbatches, most_of_a_kind(actions));
  for (TimedAction& action : actions) {
    if (action.chunk < 0 && chunks == 1) action.chunk = 0;
    const bool is_named = action.microbatch >= 0 && action.chunk >= 0;
    if (is_named || is_weights(action) || as_index(action.nth) >= order.size()) continue;
    const auto& [chunk, microbatch] = order[as_index(action.nth)];
    if (action.chunk < 0) action.chunk = is_forward(action) ? chunk : chunks - 1 - chunk;
    if (action.microbatch < 0) action.microbatch = microbatch;
  }
}

// Gives weight gradients without a micro-batch the one of the backward in the same place of its list.
void name_weights(std::vector<TimedAction>& actions) {
  std::map<std::tuple<int, int, int>, const TimedAction*> backwards;  // by iteration, rank, place
  for (const TimedAction& action : actions)
    if (!is_forward(action) && !is_weights(action)) backwards[{action.iteration, action.rank, action.nth}] = &action;
  for (TimedAction& action : actions) {
    const auto found = backwards.find({action.iteration, action.rank, action.nth});
    if (!is_weights(action) || action.microbatch >= 0 || found == backwards.end()) continue;
    action.microbatch = found->second->microbatch;
    action.chunk = found->second->chunk;
  }
}

// Returns the actions of the last iteration: the first ones of a job are often unlike the others.
std::vector<TimedAction> last_iteration(const std::vector<TimedAction>& actions) {
  int last = std::numeric_limits<int>::min();
  for (const TimedAction& action : actions) last = std::max(last, action.iteration);
  std::vector<TimedAction> result;
  std::ranges::copy_if(actions, std::back_inserter(result), [&](const TimedAction& action) { return action.iteration == last; });
  return result;
}

// Returns how long actions start after, or before, the end of everything that they depend on; summed up.
double unexplained_time(std::vector<TimedAction> actions, const ChunkMap& map) {
  std::ranges::stable_sort(actions, {}, [](const TimedAction& action) { return std::pair(action.start, action.end); });
  std::map<int, Nanoseconds> busy_until;
  std::vector<Nanoseconds> ready(actions.size(), Nanoseconds{0});
  for (std::size_t i = 0; i < actions.size(); ++i) {
    Nanoseconds& until = busy_until[actions[i].rank];
    ready[i] = until;
    until = std::max(until, actions[i].end);
  }
  for (const auto& [producer, consumer] : dependencies_of(actions, map).pairs)
    ready[as_index(consumer)] = std::max(ready[as_index(consumer)], actions[as_index(producer)].end);
  double sum = 0;
  for (std::size_t i = 0; i < actions.size(); ++i) sum += std::abs(static_cast<double>((actions[i].start - ready[i]).count()));
  return sum;
}

double unexplained_time(std::vector<TimedAction> actions, int ranks, int chunks, int microbatches, bool is_v) {
  name_actions(actions, ranks, chunks, microbatches);
  return unexplained_time(std::move(actions), {ranks, chunks, is_v});
}

// Returns the least number of chunks whose order explains when actions start.
int likely_chunks(const std::vector<TimedAction>& actions, int ranks, int forwards) {
  int likely = 1;
  double least = unexplained_time(actions, ranks, 1, forwards, false);
  for (int chunks = 2; chunks <= kMostChunksTried; ++chunks) {
    if (forwards % chunks != 0) continue;
    const double time = unexplained_time(actions, ranks, chunks, forwards / chunks, false);
    if (time >= kExplainsMore * least) continue;
    least = time;
    likely = chunks;
  }
  return likely;
}

int stated_chunks(const std::vector<TimedAction>& actions) {
  int most = -1;
  for (const TimedAction& action : actions) most = std::max(most, action.chunk);
  return most + 1;
}

int stated_microbatches(const std::vector<TimedAction>& actions) {
  int most = -1;
  for (const TimedAction& action : actions) most = std::max(most, action.microbatch);
  return most + 1;
}

[[noreturn]] void refuse_counts(const ActionTimes& times, int forwards) {
  throw Error(std::to_string(forwards) + " forwards of a rank are not those of " + std::to_string(times.microbatches) +
                  " micro-batches in " + std::to_string(times.chunks) + " model chunks",
              times.where, "give the files of one job with its own config.json");
}

// Sets the counts that neither the files' lists nor their configuration say.
void complete_counts(ActionTimes& times, const std::vector<TimedAction>& last) {
  const int forwards = most_of_a_kind(last);
  if (times.chunks == 0) times.chunks = stated_chunks(times.actions);
  if (times.microbatches == 0) times.microbatches = stated_microbatches(times.actions);
  if (times.chunks == 0 && times.microbatches > 0 && forwards % times.microbatches == 0) times.chunks = forwards / times.microbatches;
  if (times.chunks == 0) times.chunks = likely_chunks(last, times.ranks, forwards);
  if (times.microbatches == 0) times.microbatches = (forwards + times.chunks - 1) / times.chunks;
}

}  // namespace

ChunkMap place_actions(ActionTimes& times) {
  const std::vector<TimedAction> last = last_iteration(times.actions);
  complete_counts(times, last);
  const auto is_open = [](const TimedAction& action) { return action.microbatch < 0 || action.chunk < 0; };
  if (std::ranges::any_of(times.actions, is_open) && most_of_a_kind(times.actions) > times.chunks * times.microbatches)
    refuse_counts(times, most_of_a_kind(times.actions));
  if (stated_chunks(times.actions) > times.chunks) refuse_counts(times, most_of_a_kind(times.actions));
  name_actions(times.actions, times.ranks, times.chunks, times.microbatches);
  name_weights(times.actions);
  ChunkMap map{times.ranks, times.chunks, false};
  if (times.chunks == 2) {
    const double loop = unexplained_time(last, times.ranks, 2, times.microbatches, false);
    map.is_v = unexplained_time(last, times.ranks, 2, times.microbatches, true) < loop;
  }
  return map;
}

ActionDependencies dependencies_of(const std::vector<TimedAction>& actions, const ChunkMap& map) {
  enum class Class { forward, backward, weights };
  const auto class_of = [](EventKind kind) {
    return kind == EventKind::forward ? Class::forward : kind == EventKind::backward_weight ? Class::weights : Class::backward;
  };
  using Key = std::tuple<int, Class, int, int, int>;  // iteration, class, stage, micro-batch, how many of the same came before
  std::map<Key, int> index, counts;
  std::vector<Key> keys;
  for (int i = 0; i < static_cast<int>(actions.size()); ++i) {
    const TimedAction& one = actions[as_index(i)];
    Key key{one.iteration, class_of(one.kind), map.stage(one.rank, one.chunk), one.microbatch, 0};
    const int before = counts[key]++;
    std::get<4>(key) = before;
    index.emplace(key, i);
    keys.push_back(key);
  }
  ActionDependencies result;
  for (int i = 0; i < static_cast<int>(actions.size()); ++i) {
    Key needed = keys[as_index(i)];
    auto& [iteration, kind, stage, microbatch, part] = needed;
    // Weight gradients follow their backward in the order of their rank.
    if (kind == Class::weights || (kind == Class::forward && stage == 0)) continue;
    if (kind == Class::backward && stage == map.stages() - 1)
      kind = Class::forward;
    else
      stage += kind == Class::forward ? -1 : 1;
    const auto found = index.find(needed);
    if (found == index.end())
      ++result.missing;
    else
      result.pairs.emplace_back(found->second, i);
  }
  return result;
}

}  // namespace mptune::profiler
