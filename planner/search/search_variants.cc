#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "planner/cost/variants.h"
#include "planner/plan/parallelism.h"
#include "planner/search/cut_places.h"
#include "planner/search/joint/ranking.h"
#include "planner/search/search.h"
#include "planner/search/search_divisions.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/index.h"

namespace mptune {
namespace {

// True if no plan of the space can be missing: every plan was refused for its memory or its time.
bool nothing_left_out(const SearchResult& result) {
  return std::ranges::none_of(result.rejected, [](const Rejection& rejection) {
    return rejection.reason == RejectedAs::not_reached || rejection.reason == RejectedAs::unproved;
  });
}

// Returns a bound: no plan that the search covers is faster.
double bound_of(const SearchResult& result) {
  if (!result.ranked.empty()) return result.lower_bound_s;
  return nothing_left_out(result) ? std::numeric_limits<double>::infinity() : 0;
}

void add_rejections(const std::vector<Rejection>& more, std::vector<Rejection>& rejected) {
  for (const Rejection& rejection : more) {
    const auto known = std::ranges::find(rejected, rejection.reason, &Rejection::reason);
    known == rejected.end() ? rejected.push_back(rejection) : void(known->count += rejection.count);
  }
}

bool in_half_memory(const SearchResult& result, const Candidate& candidate) {
  return result.best_half_memory >= 0 && &result.ranked[as_index(result.best_half_memory)] == &candidate;
}

// A plan of one of the results.
struct Found {
  const Candidate* candidate = nullptr;
  bool best_in_half_memory = false;
};

// Where no slow kernel is in the way, plans that replace slow kernels cost what they cost without. Only the exact ones are kept.
void drop_needless_replacing(std::vector<Found>& all) {
  const std::vector<Found> before = all;
  std::erase_if(all, [&](const Found& found) {
    Plan plain = found.candidate->plan;
    if (!std::exchange(plain.options.replace_slow_kernels, false)) return false;
    return std::ranges::any_of(before, [&](const Found& other) {
      return other.candidate->prediction.step_s <= found.candidate->prediction.step_s && other.candidate->plan == plain;
    });
  });
}

// Returns the plan with classes for its devices' names: divisions of a pool may have the same plan on other cores.
Plan with_classes(Plan plan) {
  for (std::string& name : plan.devices)
    if (const auto device = find_device(name)) name = device_class(*device);
  return plan;
}

// Plans on devices of one core are the same with any number of threads, so one of them is kept.
void drop_equal(bool divided, std::vector<Found>& all) {
  std::vector<Found> distinct;
  for (const Found& found : all) {
    const auto same = [&](const Found& other) {
      if (other.candidate->plan == found.candidate->plan) return true;
      return divided && other.candidate->prediction.step_s == found.candidate->prediction.step_s &&
             with_classes(other.candidate->plan) == with_classes(found.candidate->plan);
    };
    const auto known = std::ranges::find_if(distinct, same);
    if (known == distinct.end())
      distinct.push_back(found);
    else
      known->best_in_half_memory = known->best_in_half_memory || found.best_in_half_memory;
  }
  all = std::move(distinct);
}

std::vector<Found> fastest_first(bool divided, const std::vector<SearchResult>& results) {
  std::vector<Found> all;
  for (const SearchResult& result : results)
    for (const Candidate& candidate : result.ranked) all.push_back({&candidate, in_half_memory(result, candidate)});
  drop_needless_replacing(all);
  drop_equal(divided, all);
  std::ranges::stable_sort(all, {}, [](const Found& found) { return found.candidate->prediction.step_s; });
  return all;
}

// Ranks the `keep` fastest plans, and the best of each kind.
void rank(const SearchSpace& space, const std::vector<Found>& fastest_first, SearchResult& merged) {
  std::vector<planner::Parallelism> kinds;
  for (const auto& [candidate, best_in_half_memory] : fastest_first) {
    const planner::Parallelism kind = planner::parallelism_of(candidate->plan, space.whole_machine);
    const bool first_of_kind = std::ranges::find(kinds, kind) == kinds.end();
    const bool half = best_in_half_memory && merged.best_half_memory < 0;
    if (static_cast<int>(merged.ranked.size()) >= space.keep && !first_of_kind && !half) continue;
    const int place = static_cast<int>(merged.ranked.size());
    if (half) merged.best_half_memory = place;
    if (merged.best_pipeline < 0 && candidate->plan.num_stages() > 1) merged.best_pipeline = place;
    if (first_of_kind) kinds.push_back(kind);
    merged.ranked.push_back(*candidate);
  }
}

void add_not_executable(const std::vector<SearchResult>& results, SearchResult& merged) {
  for (const SearchResult& result : results)
    for (const NotExecutable& plan : result.not_executable)
      if (plan.candidate.prediction.step_s < merged.ranked.front().prediction.step_s) merged.not_executable.push_back(plan);
  const auto step_s = [](const NotExecutable& plan) { return plan.candidate.prediction.step_s; };
  std::ranges::stable_sort(merged.not_executable, {}, step_s);
  std::vector<NotExecutable> fastest;
  for (NotExecutable& plan : merged.not_executable) {
    const auto same = [&](const NotExecutable& other) { return other.candidate.plan.schedule == plan.candidate.plan.schedule; };
    if (std::ranges::none_of(fastest, same)) fastest.push_back(std::move(plan));
  }
  merged.not_executable = std::move(fastest);
}

void add_nearest(const SearchResult& result, SearchResult& merged) {
  if (result.smallest_excess_bytes <= 0) return;
  if (merged.smallest_excess_bytes > 0 && merged.smallest_excess_bytes <= result.smallest_excess_bytes) return;
  merged.smallest_excess_bytes = result.smallest_excess_bytes;
  merged.smallest_excess_device = result.smallest_excess_device;
}

SearchResult merge(const SearchSpace& space, const std::vector<SearchResult>& results) {
  SearchResult merged;
  double bound_s = std::numeric_limits<double>::infinity();
  for (const SearchResult& result : results) {
    add_rejections(result.rejected, merged.rejected);
    merged.simulated += result.simulated;
    merged.worked += result.worked;
    bound_s = std::min(bound_s, bound_of(result));
    add_nearest(result, merged);
  }
  rank(space, fastest_first(!space.divisions.empty(), results), merged);
  if (merged.ranked.empty()) return merged;
  merged.smallest_excess_bytes = 0;
  merged.smallest_excess_device.clear();
  const Candidate& best = merged.ranked.front();
  merged.lower_bound_s = std::min(bound_s, best.prediction.step_s);
  merged.complete = std::ranges::all_of(
      results, [&](const SearchResult& result) { return result.complete || bound_of(result) >= best.prediction.step_s; });
  for (const SearchResult& result : results)
    if (!result.ranked.empty() && result.ranked.front().plan == best.plan) {
      merged.classes = result.classes;
      merged.stages_per_device = result.stages_per_device;
    }
  add_not_executable(results, merged);
  return merged;
}

// Returns the variants that the space allows and the profile has costs of. Slow kernels that cost nothing need no search of their own.
std::vector<ExecutionVariant> searched_variants(const SearchSpace& space, const Profile& profile) {
  std::vector<ExecutionVariant> searched;
  for (const ExecutionVariant& option : space.variants) {
    if (!planner::has_variant(profile, option)) continue;
    const ExecutionVariant variant = CostModel(profile, option).variant();
    const bool known = std::ranges::find(searched, variant) != searched.end();
    if (!known && (!space.exact || variant == ExecutionVariant())) searched.push_back(variant);
  }
  if (searched.empty()) searched.push_back(space.variants.empty() || space.exact ? ExecutionVariant() : space.variants.front());
  return searched;
}

SearchSpace with_any_cut(SearchSpace space) {
  space.cut_places.clear();
  return space;
}

}  // namespace

SearchResult search_plans(const SearchSpace& space, const Profile& profile) {
  if (!space.cut_places.empty()) return search_plans(with_any_cut(space), planner::with_cut_places(profile, space.cut_places));
  const std::vector<ExecutionVariant> variants = searched_variants(space, profile);
  SearchSpace share = space;
  share.most_actions = space.most_actions / static_cast<std::int64_t>(variants.size());
  double fastest_s = std::numeric_limits<double>::infinity();
  share.improved = [&](const Candidate& candidate) {
    if (candidate.prediction.step_s >= fastest_s) return;
    fastest_s = candidate.prediction.step_s;
    if (space.improved) space.improved(candidate);
  };
  if (!space.divisions.empty()) {
    share.most_actions = space.most_actions;
    return merge(space, planner::search_divisions(share, profile, variants));
  }
  std::vector<SearchResult> results;
  const auto count = static_cast<double>(variants.size());
  for (const ExecutionVariant& each : variants) {
    const auto before = static_cast<double>(results.size());
    // What one search leaves of its time is the next one's.
    if (space.stop) share.stop = [&space, count, before](double part) { return space.stop((before + part) / count); };
    results.push_back(search_plans(share, CostModel(profile, each)));
  }
  return results.size() == 1 ? std::move(results.front()) : merge(space, results);
}

std::vector<Candidate> memory_front(const SearchSpace& space, const Profile& profile, double share, const std::vector<Candidate>& known) {
  if (!space.cut_places.empty())
    return memory_front(with_any_cut(space), planner::with_cut_places(profile, space.cut_places), share, known);
  std::vector<Candidate> all;
  std::vector<Division> divisions = space.divisions;
  if (divisions.empty()) divisions.push_back({space.devices, space.memory_bytes});
  for (const ExecutionVariant& each : searched_variants(space, profile))
    for (const Division& division : divisions) {
      SearchSpace part = space;
      part.devices = division.devices;
      part.memory_bytes = division.memory_bytes;
      part.most_actions = std::max<std::int64_t>(1, space.most_actions / std::ssize(divisions));
      const std::vector<Candidate> front = memory_front(part, CostModel(profile, each), share, known);
      all.insert(all.end(), front.begin(), front.end());
    }
  std::ranges::stable_sort(all, {}, [](const Candidate& candidate) { return candidate.prediction.step_s; });
  std::vector<Candidate> front;
  for (Candidate& candidate : all)
    if (front.empty() || planner::most_bytes(candidate) < planner::most_bytes(front.back())) front.push_back(std::move(candidate));
  return front;
}

}  // namespace mptune
