#include "profiler/trace/values/trace_builder.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <type_traits>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

template <typename Map, typename Key, typename Value>
int index_of(Map& known, const Key& key, std::vector<Value>& all, const Value& value) {
  const auto [place, is_new] = known.try_emplace(key, static_cast<int>(all.size()));
  if (is_new) all.push_back(value);
  return place->second;
}

}  // namespace

std::size_t KernelIndex::Hash::operator()(const Kernel& kernel) const {
  static_assert(std::has_unique_object_representations_v<Kernel>);
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(&kernel), sizeof kernel});
}

std::int32_t KernelIndex::of(const Kernel& kernel) {
  const auto [place, is_new] = known_.try_emplace(kernel, static_cast<std::int32_t>(kernels_.size()));
  if (is_new) kernels_.push_back(kernel);
  return place->second;
}

TraceBuilder::TraceBuilder(Trace& trace) : trace_(trace) {
  for (std::size_t i = 0; i < trace.names.size(); ++i) names_.try_emplace(trace.names[i], static_cast<int>(i));
  for (std::size_t i = 0; i < trace.threads.size(); ++i) threads_.try_emplace(trace.threads[i], static_cast<int>(i));
  for (std::size_t i = 0; i < trace.tags.size(); ++i) tags_.try_emplace(key_of(trace.tags[i]), static_cast<int>(i));
}

int TraceBuilder::name(const std::string& text) {
  return index_of(names_, text, trace_.names, text);
}

int TraceBuilder::thread(const std::string& text) {
  return index_of(threads_, text, trace_.threads, text);
}

int TraceBuilder::tag(const Tag& tag) {
  return index_of(tags_, key_of(tag), trace_.tags, tag);
}

void order_events(Trace& trace) {
  std::vector<int> by_start(trace.events.size());
  std::iota(by_start.begin(), by_start.end(), 0);
  const auto event = [&](int index) -> const Event& { return trace.events[as_index(index)]; };
  std::stable_sort(by_start.begin(), by_start.end(), [&](int a, int b) { return event(a).start < event(b).start; });
  std::vector<Event> events;
  events.reserve(by_start.size());
  std::vector<int> place(by_start.size());
  for (const int index : by_start) {
    place[as_index(index)] = static_cast<int>(events.size());
    events.push_back(event(index));
  }
  trace.events = std::move(events);
  const auto move = [&](int& index) {
    if (index >= 0) index = place[as_index(index)];
  };
  for (Launch& launch : trace.launches) move(launch.event);
  for (Edge& edge : trace.edges) {
    move(edge.producer);
    move(edge.consumer);
  }
}

void order_ranges(Trace& trace) {
  std::stable_sort(trace.ranges.begin(), trace.ranges.end(), [](const Event& a, const Event& b) { return a.start < b.start; });
}

}  // namespace mptune::profiler
