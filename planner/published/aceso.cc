#include "planner/published/aceso.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "planner/partition/gap.h"
#include "planner/plan/field.h"
#include "planner/published/aceso_stages.h"
#include "planner/published/chain_sweep.h"
#include "planner/simulate/operations.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr const char* kWhere = "operator tables";

const AcesoTable& table_of(const AcesoProblem& problem, int samples) {
  const auto found = std::find_if(problem.tables.begin(), problem.tables.end(), [&](const AcesoTable& t) { return t.samples == samples; });
  if (found == problem.tables.end())
    throw Error("no table of micro-batches of " + std::to_string(samples), kWhere, "use a size that has one");
  return *found;
}

void check_tables(const AcesoProblem& problem) {
  if (problem.tables.empty() || problem.tables.front().operators.empty()) throw Error("no operators", kWhere, "give at least one table");
  if (problem.devices < 1) throw Error("no devices", "aceso objective", "give at least one");
  const std::vector<AcesoOperator>& first = problem.tables.front().operators;
  std::set<int> sizes;
  for (const AcesoTable& table : problem.tables) {
    const bool alike = std::equal(first.begin(), first.end(), table.operators.begin(), table.operators.end(),
                                  [](const AcesoOperator& a, const AcesoOperator& b) { return a.name == b.name; });
    if (!alike)
      throw Error("the tables of micro-batches of " + std::to_string(problem.tables.front().samples) + " and " +
                      std::to_string(table.samples) + " list different operators",
                  kWhere, "give tables of one model");
    if (table.samples < 1 || !sizes.insert(table.samples).second)
      throw Error("micro-batch size " + std::to_string(table.samples) + " is not positive or has two tables", kWhere,
                  "give one table per size");
  }
  if (problem.devices > static_cast<int>(first.size()))
    throw Error(std::to_string(problem.devices) + " devices for " + std::to_string(first.size()) + " operators", "aceso objective",
                "use fewer devices");
  check_chain_memory(static_cast<int>(first.size()), problem.devices);
}

bool is_recomputable(const AcesoTable& table, int i) {
  return i >= 0 && i < static_cast<int>(table.operators.size()) && table.operators[as_index(i)].recomputable;
}

// Returns the stages' bounds: 0, the cuts, the number of operators.
std::vector<int> bounds_of(const AcesoTable& table, const std::vector<int>& cuts) {
  std::vector<int> bounds = {0};
  bounds.insert(bounds.end(), cuts.begin(), cuts.end());
  bounds.push_back(static_cast<int>(table.operators.size()));
  if (std::adjacent_find(bounds.begin(), bounds.end(), [](int a, int b) { return a >= b; }) != bounds.end())
    throw Error("the cuts leave a stage without operators", "aceso objective", "list them in ascending order, each once");
  return bounds;
}

AcesoStage stage_of(const AcesoStages& stages, int in_flight, int first, int last, const AcesoChoice& choice) {
  AcesoStage stage;
  stage.first = first;
  stage.last = last;
  stage.recomputed = choice.recomputed;
  stage.recompute_ns = choice.time_ns;
  stage.turn_ns = stages.turn_ns(first, last) + choice.time_ns;
  stage.held_bytes = stages.held_bytes(in_flight, first, last) - in_flight * choice.saved_bytes + choice.again_bytes;
  stage.reserved_bytes = stages.reserved_bytes(first, last);
  return stage;
}

void time_step(AcesoPlan& plan) {
  std::int64_t largest = 0;
  for (const AcesoStage& stage : plan.stages) {
    plan.step_ns += stage.turn_ns;
    largest = std::max(largest, stage.turn_ns);
  }
  plan.step_ns += (plan.microbatches - 1) * largest;
}

// Searches one micro-batch size.
class SizeSearch {
 public:
  SizeSearch(const AcesoProblem& problem, const AcesoTable& table, std::int64_t most_sets)
      : problem_(problem), table_(table), effort_{most_sets}, stages_(problem, table, effort_) {
    chain_.layers = stages_.operators();
    chain_.stages = problem.devices;
    chain_.repeats = problem.batch / table.samples - 1;
    chain_.stop = problem.stop;
    chain_.bound = [this](int stage, int first, int last) { return bound(stage, first, last); };
    chain_.exact = [this](int stage, int first, int last, std::int64_t longest_ns) { return exact(stage, first, last, longest_ns); };
  }

  ChainCuts run(std::int64_t below_ns) {
    chain_.below_ns = below_ns;
    ChainCuts found = best_chain_cuts(chain_);
    if (!effort_.limited) return found;
    found.complete = false;
    found.lower_bound_ns = std::min(found.lower_bound_ns, least_by_bounds(below_ns));
    return found;
  }

  AcesoPlan plan(const std::vector<int>& cuts) {
    AcesoPlan plan;
    plan.samples = table_.samples;
    plan.microbatches = problem_.batch / table_.samples;
    const std::vector<int> bounds = bounds_of(table_, cuts);
    for (int s = 0; s < problem_.devices; ++s) {
      const int first = bounds[as_index(s)];
      const int last = bounds[as_index(s) + 1];
      plan.stages.push_back(stage_of(stages_, in_flight(s), first, last, recomputed_[{s, first, last}]));
    }
    time_step(plan);
    return plan;
  }

  [[nodiscard]] std::int64_t recomputations() const { return recomputations_; }

 private:
  [[nodiscard]] int in_flight(int stage) const { return problem_.devices - stage; }

  // Returns a bound: no cuts take less, whatever they recompute.
  [[nodiscard]] std::int64_t least_by_bounds(std::int64_t below_ns) const {
    ChainProblem bounds = chain_;
    bounds.below_ns = below_ns;
    bounds.exact = [this](int stage, int first, int last, std::int64_t longest_ns) {
      const std::optional<TurnCost> cost = bound(stage, first, last);
      return cost && cost->largest_ns <= longest_ns ? cost : std::nullopt;
    };
    return best_chain_cuts(bounds).lower_bound_ns;
  }

  std::optional<TurnCost> bound(int stage, int first, int last) const {
    const std::optional<std::int64_t> again = stages_.least_recompute_ns(in_flight(stage), first, last);
    if (!again) return std::nullopt;
    const std::int64_t turn = stages_.turn_ns(first, last) + *again;
    return TurnCost{turn, turn, stage == 0 ? 0 : stages_.copied_bytes(first)};
  }

  std::optional<TurnCost> exact(int stage, int first, int last, std::int64_t longest_ns) {
    const std::int64_t turn = stages_.turn_ns(first, last);
    if (turn > longest_ns) return std::nullopt;
    if (stages_.excess_bytes(in_flight(stage), first, last) <= 0) return bound(stage, first, last);
    ++recomputations_;
    const auto choice = stages_.recompute(in_flight(stage), first, last, longest_ns - turn);
    if (!choice) return std::nullopt;
    recomputed_[{stage, first, last}] = *choice;
    return TurnCost{turn + choice->time_ns, turn + choice->time_ns, stage == 0 ? 0 : stages_.copied_bytes(first)};
  }

  const AcesoProblem& problem_;
  const AcesoTable& table_;
  AcesoEffort effort_;
  AcesoStages stages_;
  ChainProblem chain_;
  std::int64_t recomputations_ = 0;
  std::map<std::tuple<int, int, int>, AcesoChoice> recomputed_;  // for ranges that have been priced and don't fit as they are
};

std::vector<const AcesoTable*> tables_by_size(const AcesoProblem& problem) {
  std::vector<const AcesoTable*> tables;
  for (const AcesoTable& table : problem.tables)
    if (problem.batch >= table.samples && problem.batch % table.samples == 0) tables.push_back(&table);
  std::sort(tables.begin(), tables.end(), [](const AcesoTable* a, const AcesoTable* b) { return a->samples < b->samples; });
  if (tables.empty())
    throw FieldError(Field::batch, "no micro-batch size of the tables divides a batch of " + std::to_string(problem.batch),
                     "use a multiple of a size");
  return tables;
}

AcesoOperator operator_of(const profiler::OperatorRow& row) {
  AcesoOperator made;
  made.name = row.name;
  made.forward_ns = to_ns(row.forward_s);
  made.backward_ns = to_ns(row.backward_s);
  made.input_bytes = std::llround(row.input_bytes);
  made.output_bytes = std::llround(row.output_bytes);
  made.weights_bytes = std::llround(row.weights_bytes);
  made.saved_activation_bytes = std::llround(row.activations_bytes);
  if (row.name == "enc-attention-softmax") made.saved_activation_bytes = 0;
  if (row.name == "enc-attention-dropout") made.saved_activation_bytes = made.saved_activation_bytes * 3 / 2;
  made.forward_reserved_bytes = std::llround(row.forward_reserved_bytes);
  made.backward_reserved_bytes = std::llround(row.backward_reserved_bytes);
  made.recomputable = row.name != "encoder-embedding" && row.name != "gpt-post-process";
  made.begins_piece = row.name.ends_with("-1st-layernorm");
  return made;
}

}  // namespace

AcesoTable aceso_table(int samples, const std::vector<profiler::OperatorRow>& rows, int layers) {
  AcesoTable table;
  table.samples = samples;
  for (const profiler::PlacedOperator& placed : profiler::operators_in_order(rows, layers))
    table.operators.push_back(operator_of(rows[placed.row]));
  return table;
}

AcesoPlan rate_aceso(const AcesoProblem& problem, int samples, const std::vector<int>& cuts, const std::vector<int>& recomputed) {
  check_tables(problem);
  const AcesoTable& table = table_of(problem, samples);
  for (const int i : recomputed)
    if (!is_recomputable(table, i))
      throw Error("operator " + std::to_string(i) + " can't be recomputed", "aceso objective", "leave it out");
  AcesoEffort none;
  const AcesoStages stages(problem, table, none);
  const std::vector<int> bounds = bounds_of(table, cuts);
  AcesoPlan plan;
  plan.samples = samples;
  plan.microbatches = problem.batch / samples;
  const int count = static_cast<int>(bounds.size()) - 1;
  for (int s = 0; s < count; ++s) {
    const int first = bounds[as_index(s)];
    const int last = bounds[as_index(s) + 1];
    std::vector<int> inside;
    std::copy_if(recomputed.begin(), recomputed.end(), std::back_inserter(inside), [&](int i) { return i >= first && i < last; });
    plan.stages.push_back(stage_of(stages, count - s, first, last, stages.effect(inside, last)));
  }
  time_step(plan);
  return plan;
}

double AcesoResult::gap() const {
  if (best.empty()) return std::numeric_limits<double>::infinity();
  return gap_to(static_cast<double>(lower_bound_ns), static_cast<double>(best.front().step_ns));
}

AcesoResult plan_aceso(const AcesoProblem& problem) {
  check_tables(problem);
  AcesoResult result;
  result.complete = true;
  result.lower_bound_ns = std::numeric_limits<std::int64_t>::max();
  const std::vector<const AcesoTable*> tables = tables_by_size(problem);
  for (const AcesoTable* table : tables) {
    SizeSearch search(problem, *table, problem.most_sets / std::ssize(tables));
    const ChainCuts found = search.run(result.best.empty() ? std::numeric_limits<std::int64_t>::max() : result.best.front().step_ns);
    if (found.found) result.best.assign(1, search.plan(found.cuts));
    result.complete = result.complete && found.complete;
    result.lower_bound_ns = std::min(result.lower_bound_ns, found.lower_bound_ns);
    result.sweeps += found.sweeps;
    result.recomputations += search.recomputations();
  }
  return result;
}

}  // namespace mptune::planner
