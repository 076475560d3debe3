#include "planner/search/search_divisions.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <exception>
#include <limits>
#include <optional>
#include <utility>

#include "planner/plan/plan_error.h"
#include "planner/search/search.h"
#include "planner/search/search_budget.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr double kNoPlan = std::numeric_limits<double>::infinity();

// A division in an execution variant.
struct Part {
  SearchSpace space;
  const CostModel* cost = nullptr;
  SearchResult result = {};
  std::optional<SearchResult> before = {};  // result of the search before that of `result`

  [[nodiscard]] double best_s() const { return std::min(step_s(result), before ? step_s(*before) : kNoPlan); }

 private:
  static double step_s(const SearchResult& one) { return one.ranked.empty() ? kNoPlan : one.ranked.front().prediction.step_s; }
};

// Returns the seconds of the fastest plan of several stages.
double pipeline_s(const SearchResult& result) {
  return result.best_pipeline < 0 ? kNoPlan : result.ranked[as_index(result.best_pipeline)].prediction.step_s;
}

// What was left out is slower than the best plan, as its lower bound shows.
void reject_rest(SearchResult& result) {
  std::int64_t count = 0;
  for (Rejection& rejection : result.rejected)
    if (rejection.reason == RejectedAs::not_reached || rejection.reason == RejectedAs::unproved) count += std::exchange(rejection.count, 0);
  std::erase_if(result.rejected, [](const Rejection& rejection) { return rejection.count == 0; });
  if (count > 0) result.rejected.push_back({RejectedAs::too_slow, count});
}

class DivisionSearch {
 public:
  DivisionSearch(const SearchSpace& space, const Profile& profile, const std::vector<ExecutionVariant>& variants) : space_(space) {
    for (const ExecutionVariant& variant : variants) {
      costs_.emplace_back(profile, variant);
      for (const Division& division : space.divisions) add_part(division, division == space.divisions.front());
    }
  }

  std::vector<SearchResult> run() {
    look();
    std::ranges::stable_sort(parts_, {}, &Part::best_s);
    search(parts_.front(), SearchBudget::kFirstDivisionSearched);
    for (std::size_t p = 1; p < parts_.size(); ++p) search_faster(parts_[p], static_cast<int>(p));
    const auto best = std::ranges::min_element(parts_, {}, &Part::best_s);
    if (best != parts_.begin()) search(*best, 1);
    std::vector<SearchResult> results;
    for (Part& part : parts_) {
      results.push_back(std::move(part.result));
      if (part.before) results.push_back(*std::move(part.before));
    }
    return results;
  }

 private:
  // The device of all cores is tried beside one division only.
  void add_part(const Division& division, bool first) {
    Part part{space_, &costs_.back()};
    part.space.divisions.clear();
    part.space.devices = division.devices;
    part.space.memory_bytes = division.memory_bytes;
    if (!first) part.space.whole_machine.clear();
    parts_.push_back(std::move(part));
  }

  // Bounds a search to this part `end` of the whole time, and to that part of the work less what was done.
  void bound(double end, SearchSpace& space) const {
    space.most_actions = std::max<std::int64_t>(1, std::llround(static_cast<double>(space_.most_actions) * end) - worked_);
    if (space_.stop) space.stop = [this, end](double) { return space_.stop(end); };
  }

  [[nodiscard]] int share_of_families(std::size_t parts) const {
    return std::min(space_.most_families,
                    std::max(SearchBudget::kLeastDivisionFamilies, static_cast<int>(SearchBudget::kDivisionFamilies / parts)));
  }

  void look() {
    least_actions_ =
        std::llround(SearchBudget::kDivisionsLooked * static_cast<double>(space_.most_actions) / static_cast<double>(parts_.size()));
    std::exception_ptr first_error;
    std::vector<Part> possible;
    double looked = 0;
    for (Part& part : parts_) {
      SearchSpace space = part.space;
      bound(SearchBudget::kDivisionsLooked * ++looked / static_cast<double>(parts_.size()), space);
      space.most_families = share_of_families(parts_.size());
      space.keep = 1;
      space.look_beyond = false;
      try {
        part.result = search_plans(space, *part.cost);
        note(part.result);
        possible.push_back(std::move(part));
      } catch (const PlanError&) {
        if (!first_error) first_error = std::current_exception();  // for example fewer devices than stages that were asked for
      }
    }
    if (possible.empty()) std::rethrow_exception(first_error);
    parts_ = std::move(possible);
  }

  // Searches and lists alternatives, too; a first look lists none.
  void search(Part& part, double end) {
    SearchSpace space = part.space;
    bound(end, space);
    take(search_plans(space, *part.cost), part);
  }

  void search_faster(Part& part, int before) {
    const bool no_better = part.result.complete || (!part.result.ranked.empty() && part.result.lower_bound_s >= best_s_);
    if (no_better) return reject_rest(part.result);
    SearchSpace space = part.space;
    space.most_families = share_of_families(std::min(parts_.size(), SearchBudget::kOtherDivisions));
    bound(SearchBudget::kOtherDivisionsSearched - (SearchBudget::kOtherDivisionsSearched - SearchBudget::kFirstDivisionSearched) *
                                                      std::pow(1 - SearchBudget::kShareOfOthers, before),
          space);
    if (space.most_actions <= least_actions_) return;
    if (parts_.size() > SearchBudget::kOtherDivisions) {
      // With few divisions each is searched as it would be alone: what is tried of `list` and of helping devices depends on the plans seen.
      space.keep = 1;
      space.longest_s = pipeline_s_;
    }
    take(search_plans(space, *part.cost), part);
  }

  // Earlier searches of the same division may have seen plans that are too slow to be searched for again.
  void take(SearchResult found, Part& part) {
    note(found);
    found.simulated += part.result.simulated;
    found.worked += part.result.worked;
    if (found.ranked.empty()) {
      part.result.simulated = found.simulated;
      part.result.worked = found.worked;
      return;
    }
    if (found.lower_bound_s > 0) found.lower_bound_s = std::max(found.lower_bound_s, part.result.lower_bound_s);
    SearchResult before;
    before.ranked = std::move(part.result.ranked);
    if (part.before) before.ranked.insert(before.ranked.end(), part.before->ranked.begin(), part.before->ranked.end());
    std::ranges::stable_sort(before.ranked, {}, [](const Candidate& candidate) { return candidate.prediction.step_s; });
    before.lower_bound_s = found.lower_bound_s;
    before.complete = found.complete;
    part.before = std::move(before);
    part.result = std::move(found);
  }

  void note(const SearchResult& result) {
    worked_ += result.worked;
    if (!result.ranked.empty()) best_s_ = std::min(best_s_, result.ranked.front().prediction.step_s);
    pipeline_s_ = std::min(pipeline_s_, pipeline_s(result));
  }

  const SearchSpace& space_;
  std::deque<CostModel> costs_;  // by variant; parts point to them
  std::vector<Part> parts_;
  double best_s_ = kNoPlan;
  double pipeline_s_ = kNoPlan;
  std::int64_t worked_ = 0;
  std::int64_t least_actions_ = 0;  // least work of the first look at a division: a search with less would find no more
};

bool holds(const Division& division, const Plan& plan) {
  return std::ranges::all_of(
      plan.devices, [&](const std::string& device) { return std::ranges::find(division.devices, device) != division.devices.end(); });
}

}  // namespace

std::vector<SearchResult> search_divisions(const SearchSpace& space, const Profile& profile,
                                           const std::vector<ExecutionVariant>& variants) {
  return DivisionSearch(space, profile, variants).run();
}

std::vector<Division> fastest_divisions(const SearchSpace& space, const SearchResult& result, int most) {
  std::vector<Division> fastest;
  for (const Candidate& candidate : result.ranked) {
    const auto of_plan = [&](const Division& division) { return holds(division, candidate.plan); };
    const auto found = std::ranges::find_if(space.divisions, of_plan);
    if (found == space.divisions.end() || std::ranges::find(fastest, *found) != fastest.end()) continue;
    if (static_cast<int>(fastest.size()) == most) break;
    fastest.push_back(*found);
  }
  return fastest;
}

}  // namespace mptune::planner
