#include "tuner/tune.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "planner/cost/pool_costs.h"
#include "planner/cost/variants.h"
#include "planner/parallelism.h"
#include "planner/plan_file.h"
#include "planner/search/suited_space.h"
#include "profiler/base/device_spec.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/store/store.h"
#include "tuner/finalists.h"
#include "tuner/live/interrupt.h"
#include "tuner/no_result.h"
#include "tuner/retry.h"
#include "tuner/search/refit.h"
#include "tuner/search/trial_search.h"
#include "tuner/trial_times.h"

namespace mptune::tuner {
namespace {

constexpr double kCheckShare = 0.1;
constexpr double kProfileShare = 0.25;
constexpr double kProfileShareOfRest = 0.5;  // where the check took longer than its share
// What measures nothing takes less than 5 % of a budget of a minute, the start of workers left aside.
constexpr double kSearchShare = 0.02;
constexpr double kSearchAgainShare = 0.01;
constexpr double kOutlookShare = 0.005;  // what other numbers of devices would do
constexpr double kRecordShare = 0.15;    // of the budget, at most
constexpr double kRecordMargin = 1.25;
constexpr int kLeastFinalRounds = 12;
constexpr int kFewFinalRounds = 6;  // what a verdict needs; see rounds_to_leave
constexpr int kMostFinalRounds = 40;
constexpr int kMostKilled = 2;  // the machine may be out of memory, which harms other programs

class Tuner {
 public:
  Tuner(const TuneOptions& options, Study& study, const TuneServices& services)
      : options_(options), study_(study), services_(services), started_(services.clock()) {}

  TuneResult run() {
    check();
    require_time("profile");
    profile_ = obtain_profile();
    space_ = planner::suited_space(options_.space, profile_.layers);
    std::erase_if(space_.variants, [&](const ExecutionVariant& variant) { return !planner::has_variant(profile_, variant); });
    search_ = search(profile_, kSearchShare);
    baselines_ = baseline_plans(space_, static_cast<int>(profile_.layers.size()), profile_.precision);
    if (options_.current) baselines_.insert(baselines_.begin(), {kCurrentBaseline, *options_.current});
    trials_ = study_.trials();
    add_asked();
    first_ = trials_.size();
    const std::vector<std::string> again = plans_to_retry(trials_);
    retry_ = {again.begin(), again.end()};
    needs_final_ = final_is_incomplete();
    if (needs_final_ || !retry_.empty() || !std::ranges::all_of(baselines_, [&](const NamedPlan& one) { return settled(one.plan); })) {
      try_baselines();
      explore();
      choose_asked();
      if (needs_final_ || times_.trials() > 0) {
        remove_old_traces();
        run_final();
      }
    }
    TuneResult result = conclude();
    result.co_running_slowdown = profile_.co_running_slowdown;
    record_traces(result.recommendation);
    result.elapsed_s = elapsed();
    return result;
  }

 private:
  // ---- time ----
  [[nodiscard]] double elapsed() const { return services_.clock() - started_; }
  [[nodiscard]] double left() const { return options_.budget_s - elapsed(); }
  void report_progress(const std::string& what) const {
    if (services_.progress) services_.progress(what, std::clamp(elapsed() / std::max(options_.budget_s, 1e-9), 0.0, 1.0));
  }
  /// How many times the predicted step the plans of this run took, where other programs load the machine; at least 1.
  [[nodiscard]] double slowdown() const {
    std::vector<double> ratios;
    for (std::size_t i = first_; i < trials_.size(); ++i)
      if (const auto step = measured_step(trials_[i]); step && trials_[i].prediction && trials_[i].prediction->step_s > 0)
        ratios.push_back(*step / trials_[i].prediction->step_s);
    return ratios.empty() ? 1 : std::max(1.0, median(std::move(ratios)));
  }
  [[nodiscard]] double record_cost(const Plan& plan) const { return times_.recording_s(step_of(plan)); }

  /// Time to leave for traces of the fastest plan so far, the fastest pipeline and the naive plan. A trace that would exceed the share left
  /// for traces is not counted, but where a finished study is resumed, which promised them.
  [[nodiscard]] double record_reserve() const {
    if (!services_.record) return 0;
    const std::vector<Series::Entry> entries = final_entries();
    const auto cost_if = [&](auto condition) {
      const Series::Entry* fastest = nullptr;
      for (const Series::Entry& entry : entries)
        if (condition(entry) && (fastest == nullptr || step_of(entry.plan) < step_of(fastest->plan))) fastest = &entry;
      return fastest == nullptr ? 0 : kRecordMargin * record_cost(fastest->plan);
    };
    double reserve = 0;
    for (const double cost : {cost_if([](const Series::Entry&) { return true; }),
                              cost_if([](const Series::Entry& entry) { return entry.plan.num_stages() > 1; }),
                              cost_if([](const Series::Entry& entry) { return entry.name == kNaiveBaseline; })})
      if (!needs_final_ || reserve + cost <= kRecordShare * options_.budget_s) reserve += cost;
    return reserve;
  }

  [[nodiscard]] double series_cost(const std::vector<Series::Entry>& entries, int rounds) const {
    std::vector<double> steps_s;
    for (const Series::Entry& entry : entries) steps_s.push_back(step_of(entry.plan));
    return times_.series_s(steps_s, rounds);
  }

  // ---- what is known ----
  [[nodiscard]] const Trial* find(const std::string& key) const { return finished_trial(trials_, key); }
  /// Whether this run need not try the plan.
  [[nodiscard]] bool settled(const Plan& plan) const {
    const std::string key = plan_key(plan);
    const Trial* trial = find(key);
    return trial != nullptr && (measured_step(*trial) || !retry_.contains(key));
  }
  /// Whether the last series is missing, had no time for all, or lost a plan that is worth retrying.
  [[nodiscard]] bool final_is_incomplete() const {
    if (!study_.final_series() || !study_.not_benchmarked().empty()) return true;
    return std::ranges::any_of(retry_, [&](const std::string& key) { return measured_step(*find(key)).has_value(); });
  }
  [[nodiscard]] double step_of(const Plan& plan) const {
    const Trial* trial = find(plan_key(plan));
    return trial == nullptr ? 0 : measured_step(*trial).value_or(0);
  }
  [[nodiscard]] std::vector<Series::Entry> final_entries() const { return choose_finalists(trials_, baselines_, single_device_peak()); }
  [[nodiscard]] std::optional<Prediction> prediction_of(const Plan& plan) const { return tuner::prediction_of(plan, profile_); }
  [[nodiscard]] std::vector<PlannedBaseline> planned_baselines() const {
    std::vector<PlannedBaseline> planned;
    for (const auto& [name, plan] : baselines_)
      planned.push_back({name, plan_key(plan), describe(plan), prediction_of(plan).value_or(Prediction{}).step_s});
    return planned;
  }
  [[nodiscard]] std::int64_t single_device_peak() const { return tuner::single_device_peak(baselines_, trials_, profile_); }

  // ---- the phases ----
  void check() {
    if (!services_.check || study_.checked()) return;
    report_progress("check");
    services_.check(kCheckShare * options_.budget_s);
    study_.set_checked();
  }

  Profile obtain_profile() {
    if (std::filesystem::exists(study_.profile_path())) {
      if (auto profile = profiler::read_recording(study_.profile_path()).profile) return planner::with_pool_devices(std::move(*profile));
    }
    report_progress("profile");
    return planner::with_pool_devices(
        services_.measure(std::min(kProfileShare * options_.budget_s, std::max(0.0, kProfileShareOfRest * left()))));
  }

  /// The space, whose search ends after so many seconds from now.
  [[nodiscard]] SearchSpace limited(SearchSpace space, double seconds) const {
    space.stop = [this, seconds, start_s = elapsed()](double part) { return elapsed() - start_s >= part * seconds; };
    return space;
  }

  [[nodiscard]] SearchResult search(const Profile& profile, double share) const {
    report_progress("search");
    return search_plans(limited(space_, share * options_.budget_s), profile);
  }

  void try_baselines() {
    for (const NamedPlan& baseline : baselines_) {
      if (settled(baseline.plan)) continue;
      const auto prediction = prediction_of(baseline.plan);
      const double expected = slowdown() * (prediction ? prediction->step_s : 0);
      if (left() <= 0) break;
      // Leaves time for one round of the last series with this baseline in it.
      const double final_s = series_cost(final_entries(), 1) + expected * (TrialTimes::kWarmUp + 1);
      const double reserve_s = needs_final_ ? 0 : record_reserve();
      if ((times_.trials() > 0 || !needs_final_) && left() < times_.trial_s(expected) + final_s + reserve_s) continue;
      try_plan(baseline.name, baseline.plan, prediction, left() - final_s);
    }
  }

  /// Rounds to leave for the last series. Fewer where the plan would be the first pipeline or hybrid tried: the baselines of that kind have
  /// equal cuts, so trying one chosen cut is worth more than narrow intervals.
  [[nodiscard]] int rounds_to_leave(const Plan& plan) const {
    const bool known = plan.num_stages() == 1 || std::ranges::any_of(trials_, [&](const Trial& trial) {
                         return trial.name == kCandidateName && planner::parallelism_of(trial.plan) == planner::parallelism_of(plan);
                       });
    return known ? kLeastFinalRounds : kFewFinalRounds;
  }

  /// Baselines do what they do, whatever plans the options allow: the fastest of these is measured beside them.
  void add_asked() {
    if (options_.asked.empty() || search_.ranked.empty()) return;
    baselines_.insert(baselines_.begin(), {kAskedBaseline, search_.ranked.front().plan});
    choose_asked();
  }

  /// By the trials so far, where there are any.
  void choose_asked() {
    const auto asked = std::ranges::find(baselines_, kAskedBaseline, &NamedPlan::name);
    if (asked == baselines_.end()) return;
    if (const Trial* fastest = fastest_allowed(trials_, search_.ranked)) asked->plan = fastest->plan;
  }

  void explore() {
    TrialSearch search(search_.ranked, {.most_trials = options_.most_trials, .target_gap = options_.target_percent / 100});
    for (const Trial& trial : trials_)
      if (!retry_.contains(trial.plan_key) || !worth_retrying(trial.outcome)) search.observe(trial);
    learn(search);
    std::string reason = "the budget for trials is spent";
    int killed = 0;  // trials in a row
    while (true) {
      auto candidate = search.next();
      if (!candidate && search_again(search)) candidate = search.next();
      if (!candidate) {
        reason = search.stop_reason();
        break;
      }
      const double free_s = left() - series_cost(final_entries(), rounds_to_leave(candidate->plan)) - record_reserve();
      const auto prediction = prediction_of(candidate->plan);
      if (free_s < times_.trial_s(slowdown() * prediction.value_or(candidate->prediction).step_s)) break;
      const Trial& trial = try_plan(kCandidateName, candidate->plan, prediction, free_s);
      search.observe(trial);
      learn(search);
      killed = was_killed(trial.outcome) ? killed + 1 : 0;
      if (killed == kMostKilled) {
        reason = "two plans in a row were killed, by another program or for lack of memory (dmesg tells): cap the devices with --memory";
        break;
      }
    }
    study_.set_stop_reason(reason);
  }

  /// Corrects the simulator by all trials so far, so that the next one is chosen by better predictions.
  void learn(TrialSearch& search) {
    const std::optional<Refit> fitted = refit(profile_, trials_);
    if (!fitted) return;
    learnt_ = with_factors(profile_, fitted->factors);
    search.predict_again([this](const Plan& plan) { return tuner::prediction_of(plan, *learnt_); });
  }

  /// Once no known plan can win: the plans that the corrected simulator finds. False where it is not corrected or was asked before.
  bool search_again(TrialSearch& search) {
    if (!learnt_ || searched_again_ || left() <= kSearchAgainShare * options_.budget_s) return false;
    searched_again_ = true;
    search.add(this->search(*learnt_, kSearchAgainShare).ranked);
    return true;
  }

  void run_final() {
    std::vector<Series::Entry> entries = final_entries();
    if (entries.empty()) refuse_without_measurement();
    study_.set_not_benchmarked(drop_slowest_that_do_not_fit(entries));
    if (entries.size() == 1 && series_cost(entries, 1) > left()) {
      // One finalist and no time to measure it again: its trial counts as the last series.
      return study_.set_final_series(find(plan_key(entries.front().plan))->series);
    }
    Series series;
    series.entries = entries;
    series.warm_up = TrialTimes::kWarmUp;
    series.rounds = kMostFinalRounds;
    series.step_limit_s = 0;
    for (const Series::Entry& entry : entries) {
      series.step_limit_s = std::max(
          series.step_limit_s, TrialTimes::step_limit_s(std::max(step_of(entry.plan), entry.prediction ? entry.prediction->step_s : 0)));
    }
    series.budget_s = std::max(0.0, left() - record_reserve());
    report_progress("final: " + std::to_string(entries.size()) + " plans benchmarked interleaved");
    store_final(services_.runner->run(series));
  }

  /// Drops the slowest finalists until one round fits the remaining budget. Returns their descriptions.
  [[nodiscard]] std::string drop_slowest_that_do_not_fit(std::vector<Series::Entry>& entries) const {
    std::string dropped;
    while (entries.size() > 1 && series_cost(entries, 1) > left()) {
      const auto slowest = std::max_element(entries.begin(), entries.end(), [this](const Series::Entry& a, const Series::Entry& b) {
        return step_of(a.plan) < step_of(b.plan);
      });
      dropped += (dropped.empty() ? "" : "; ") + describe(slowest->plan);
      entries.erase(slowest);
    }
    return dropped;
  }

  void store_final(std::vector<Trial> finals) {
    for (const Trial& trial : finals)
      if (std::holds_alternative<Interrupted>(trial.outcome)) throw_interrupted();
    const int number = study_.next_series();
    bool measured = false;
    for (Trial& trial : finals) {
      trial.series = number;
      fill_peaks(trial);
      study_.add(trial);
      trials_.push_back(trial);
      keep_if_failed(trial);
      measured = measured || measured_step(trial);
    }
    // If every plan failed, --resume runs the series again.
    if (measured) study_.set_final_series(number);
  }

  /// A series that was cut short has steps but no peaks; those of the plan's own trial are as good.
  void fill_peaks(Trial& trial) const {
    auto* measured = std::get_if<Measured>(&trial.outcome);
    const Trial* before = find(trial.plan_key);
    const auto* known = before == nullptr ? nullptr : std::get_if<Measured>(&before->outcome);
    if (measured != nullptr && known != nullptr && measured->peak_bytes.empty()) measured->peak_bytes = known->peak_bytes;
  }

  TuneResult conclude() {
    const std::optional<int> number = study_.final_series();
    if (!number) refuse_without_measurement();
    std::vector<Trial> finals;
    std::copy_if(trials_.begin(), trials_.end(), std::back_inserter(finals), [&](const Trial& trial) { return trial.series == number; });
    finals = with_every_name(std::move(finals), baselines_);
    TuneResult result;
    result.baselines = planned_baselines();
    auto recommendation =
        recommend(finals, single_device_peak(), study_.not_benchmarked(), unmeasured_plans(finals, trials_, result.baselines));
    if (!recommendation) refuse_without_measurement();
    warn_of_changes(*recommendation, profile_.layers);
    say_what_was_asked(*recommendation, options_.asked);
    result.recommendation = std::move(*recommendation);
    result.kind_facts = kind_facts(space_, search_, CostModel(profile_));
    result.kind_facts.other_devices = other_devices(limited(space_, kOutlookShare * options_.budget_s), profile_);
    result.recommendation.kinds = compare_kinds(result.recommendation.recommended, finals, trials_, result.kind_facts);
    result.trials = trials_;
    result.search = search_;
    result.lower_bound_s = search_.lower_bound_s;
    if (result.lower_bound_s > 0) result.gap = result.recommendation.recommended.step_s / result.lower_bound_s - 1;
    result.stop_reason = study_.stop_reason();
    return result;
  }

  /// Of a final before, which may have recommended other plans.
  void remove_old_traces() const {
    if (!study_.final_series()) return;
    for (const char* name : {kRecommendedTrace, kBestPipelineTrace}) std::filesystem::remove(study_.trace_path(name));
  }

  void record_traces(Recommendation& recommendation) {
    if (!services_.record) return;
    record(recommendation.recommended.trial.plan, kRecommendedTrace, recommendation);
    const std::string& key = recommendation.recommended.trial.plan_key;
    if (recommendation.best_pipeline && recommendation.best_pipeline->trial.plan_key != key)
      record(recommendation.best_pipeline->trial.plan, kBestPipelineTrace, recommendation);
    for (const BaselineResult& baseline : recommendation.baselines)
      if (baseline.name == kNaiveBaseline) record(baseline.trial.plan, kNaiveBaseline, recommendation);
  }

  void record(const Plan& plan, const std::string& name, Recommendation& recommendation) const {
    if (std::filesystem::exists(study_.trace_path(name))) return;
    if (left() < record_cost(plan)) {
      recommendation.warnings.emplace_back(NoTraceOf{.name = name, .failed = {}});
      return;
    }
    report_progress("trace of " + name);
    try {
      services_.record(plan, name);
    } catch (const Error& error) {
      // The recommendation stands without this trace.
      if (interrupt_flag().load() != 0) throw;
      recommendation.warnings.emplace_back(NoTraceOf{.name = name, .failed = error.what()});
    }
  }

  // ---- one trial ----
  const Trial& try_plan(const std::string& name, const Plan& plan, const std::optional<Prediction>& prediction, double budget_s) {
    if (interrupt_flag().load() != 0) throw_interrupted();
    report_progress(name == kCandidateName ? "candidate: " + describe(plan) : "baseline " + name);
    const double expected = prediction ? prediction->step_s : 0;
    Series series;
    series.entries = {{name, plan, prediction}};
    series.warm_up = TrialTimes::kWarmUp;
    series.rounds = TrialTimes::rounds_for(expected);
    series.budget_s = std::max(0.0, budget_s);
    series.step_limit_s = TrialTimes::step_limit_s(expected);
    const double before = elapsed();
    const auto excess = excess_on_sleeping_devices(plan, prediction);
    Trial trial = excess ? Trial{.name = name, .plan_key = plan_key(plan), .plan = plan, .prediction = prediction, .outcome = *excess}
                         : std::move(services_.runner->run(series).front());
    if (std::holds_alternative<Interrupted>(trial.outcome)) throw_interrupted();
    times_.note(trial, elapsed() - before);
    trial.series = study_.next_series();
    study_.add(trial);
    retry_.erase(trial.plan_key);
    trials_.push_back(std::move(trial));
    keep_if_failed(trials_.back());
    return trials_.back();
  }

  void keep_if_failed(const Trial& trial) const {
    if (services_.keep_failed && !measured_step(trial)) static_cast<void>(services_.keep_failed(trial));
  }

  /// Sleeping devices allocate nothing, so whether a plan exceeds their caps is decided by its predicted peaks.
  [[nodiscard]] std::optional<OutOfMemory> excess_on_sleeping_devices(const Plan& plan, const std::optional<Prediction>& prediction) const {
    const SearchSpace& space = space_;
    for (std::size_t d = 0; prediction && d < prediction->peak_bytes.size(); ++d) {
      const auto at = std::ranges::find(space.devices, plan.devices[d]) - space.devices.begin();
      if (at >= std::ssize(space.memory_bytes) || device_kind(plan.devices[d]) != DeviceSpec::Kind::sleep) continue;
      const std::int64_t cap = space.memory_bytes[as_index(at)];
      if (cap > 0 && prediction->peak_bytes[d] > cap) return OutOfMemory{plan.devices[d], prediction->peak_bytes[d], cap};
    }
    return std::nullopt;
  }

  // ---- failures ----
  /// Ends a run whose budget is spent before its next phase, rather than to exceed it by the whole of that phase.
  void require_time(const std::string& phase) const {
    if (left() > 0 || !study_.trials().empty()) return;
    throw Error("the budget was spent before the " + phase, "--budget", "give a larger --budget", ExitCode::no_result);
  }

  [[noreturn]] void throw_interrupted() const { throw interrupt_error(study_.folder(), "every finished trial is kept"); }

  [[noreturn]] void refuse_without_measurement() const { throw no_result(search_, trials_, services_.keep_failed); }

  const TuneOptions& options_;
  Study& study_;
  const TuneServices& services_;
  double started_;
  Profile profile_;
  SearchSpace space_;  ///< without memory formats that were not measured
  SearchResult search_;
  std::optional<Profile> learnt_;  ///< corrected by the trials
  bool searched_again_ = false;
  std::vector<NamedPlan> baselines_;
  std::vector<Trial> trials_;
  std::set<std::string> retry_;  // keys of plans whose failure in an earlier run may be gone; this run has not tried them yet
  std::size_t first_ = 0;        // trial of this run
  bool needs_final_ = true;      // the study has no last series, or one that lacks plans
  TrialTimes times_;             // of this run's trials
};

}  // namespace

TuneResult tune(const TuneOptions& options, Study& study, const TuneServices& services) {
  return Tuner(options, study, services).run();
}

}  // namespace mptune::tuner
