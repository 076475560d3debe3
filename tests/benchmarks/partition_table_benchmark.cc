#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "planner/partition/partition.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"
#include "tests/benchmarks/baselines/rules.h"
#include "tests/benchmarks/public_chains.h"

namespace mptune::testing {
namespace {

constexpr std::int64_t kMostNodes = 5'000'000;  // of one search: some seconds. What is not proved by then counts for no loss.
const std::vector<int> kStages = {2, 4, 8};

struct Setting {
  int microbatches = 0;
  double gigabytes_per_second = 0;
};
const std::vector<Setting> kSettings = {{8, 12}, {32, 12}, {8, 300}, {32, 300}};

// Losses of one baseline over all chains, as fractions of the optimum.
using Losses = std::vector<double>;

struct Cell {
  int chains = 0;
  int proved = 0;
  std::vector<Losses> by_rule;
};

class Table {
 public:
  explicit Table(bool markdown) : rules_(cut_rules()), markdown_(markdown) {}

  void print_head() const;
  void add(const PublicChain& chain, int stages, const Setting& setting);
  void print() const;
  [[nodiscard]] bool sound() const { return sound_; }

 private:
  [[nodiscard]] double loss(const planner::PartitionedPlan& best, const CostModel& cost, const std::vector<int>& cuts) const;
  void print(const Setting& setting) const;
  [[nodiscard]] const Cell* cell(int stages, const Setting& setting) const;

  std::vector<CutRule> rules_;
  std::map<std::tuple<int, double, int>, Cell> cells_;
  bool markdown_;
  bool sound_ = true;
};

void Table::print_head() const {
  if (markdown_) return;
  std::printf("Percent over the optimum by rule: ");
  for (const CutRule& rule : rules_) std::printf("%s%s", &rule == &rules_.front() ? "" : "; ", rule.name.c_str());
  std::printf("\n%-24s %4s %2s %3s %5s %12s\n", "chain", "n", "K", "M", "GB/s", "optimum ms");
}

double Table::loss(const planner::PartitionedPlan& best, const CostModel& cost, const std::vector<int>& cuts) const {
  Plan plan = best.plan;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    plan.stages[s].first_layer = s == 0 ? 0 : cuts[s - 1];
    plan.stages[s].last_layer = s == cuts.size() ? cost.layers() : cuts[s];
  }
  const auto best_ns = static_cast<double>(best.step_ns);
  return (std::round(predict(plan, cost).step_s * 1e9) - best_ns) / best_ns;
}

void Table::add(const PublicChain& chain, int stages, const Setting& setting) {
  const CostModel cost(on_devices(chain.profile, stages, setting.gigabytes_per_second * 1e9));
  const UncutChain uncut = uncut_chain(cost, chain.samples);
  if (uncut.costs.layers() < stages) return;
  planner::PartitionProblem problem = chain_problem(chain, stages, setting.microbatches);
  problem.most_nodes = kMostNodes;
  const planner::PartitionResult result = planner::partition(problem, cost);
  Cell& cell = cells_[{setting.microbatches, setting.gigabytes_per_second, stages}];
  cell.by_rule.resize(rules_.size());
  ++cell.chains;
  const planner::PartitionedPlan& best = result.best.front();
  if (!markdown_) {
    std::printf("%-24s %4d %2d %3d %5.0f %12.3f %s", chain.name.c_str(), uncut.costs.layers(), stages, setting.microbatches,
                setting.gigabytes_per_second, static_cast<double>(best.step_ns) * 1e-6, result.gap() > 0 ? "open  " : "proved");
  }
  if (result.gap() == 0) ++cell.proved;
  for (std::size_t r = 0; r < rules_.size(); ++r) {
    std::vector<int> cuts = rules_[r].cuts(uncut.costs, stages);
    for (int& cut : cuts) cut = uncut.first_layers[as_index(cut)];
    const double lost = loss(best, cost, cuts);
    if (!markdown_) std::printf(" %8.2f", 100 * lost);
    if (result.gap() > 0) continue;
    cell.by_rule[r].push_back(lost);
    sound_ = sound_ && lost >= 0;
  }
  if (!markdown_) std::printf("\n");
}

const Cell* Table::cell(int stages, const Setting& setting) const {
  const auto found = cells_.find({setting.microbatches, setting.gigabytes_per_second, stages});
  return found == cells_.end() ? nullptr : &found->second;
}

// Percent: mean / median / largest.
std::string summary(Losses losses) {
  if (losses.empty()) return "-";
  std::sort(losses.begin(), losses.end());
  double sum = 0;
  for (const double loss : losses) sum += loss;
  const std::size_t middle = losses.size() / 2;
  const double median = losses.size() % 2 == 1 ? losses[middle] : (losses[middle - 1] + losses[middle]) / 2;
  char text[64];
  std::snprintf(text, sizeof text, "%.1f / %.1f / %.1f", 100 * sum / static_cast<double>(losses.size()), 100 * median, 100 * losses.back());
  return text;
}

void Table::print(const Setting& setting) const {
  const char* row = markdown_ ? "| %s | %s | %s | %s |\n" : "%-30s %-22s %-22s %-22s\n";
  std::vector<std::string> heads;
  for (const int stages : kStages) {
    const Cell* found = cell(stages, setting);
    heads.push_back("K = " + std::to_string(stages) + " (" + std::to_string(found == nullptr ? 0 : found->proved) + " of " +
                    std::to_string(found == nullptr ? 0 : found->chains) + ")");
  }
  char title[64];
  std::snprintf(title, sizeof title, "M = %d, %.0f GB/s", setting.microbatches, setting.gigabytes_per_second);
  std::printf("\n");
  std::printf(row, title, heads[0].c_str(), heads[1].c_str(), heads[2].c_str());
  if (markdown_) std::printf("|---|---|---|---|\n");
  for (std::size_t r = 0; r < rules_.size(); ++r) {
    std::vector<std::string> cells;
    for (const int stages : kStages) {
      const Cell* found = cell(stages, setting);
      cells.push_back(found == nullptr ? "-" : summary(found->by_rule[r]));
    }
    std::printf(row, rules_[r].name.c_str(), cells[0].c_str(), cells[1].c_str(), cells[2].c_str());
  }
}

void Table::print() const {
  std::printf("\nSimulated 1F1B step over the proved optimum, percent: mean / median / largest (chains proved of those with K layers)\n");
  for (const Setting& setting : kSettings) print(setting);
}

int run(bool markdown, bool every_cut) {
  std::vector<PublicChain> chains = public_chains();
  if (chains.empty()) {
    std::printf("No published chains here.\n");
    return 0;
  }
  Table table(markdown);
  table.print_head();
  for (PublicChain& chain : chains) {
    if (every_cut) chain.profile.forbidden_cuts.clear();
    for (const int stages : kStages)
      for (const Setting& setting : kSettings) table.add(chain, stages, setting);
  }
  table.print();
  if (table.sound()) return 0;
  std::printf("\nA rule is faster than a proved optimum: the proof is wrong.\n");
  return 1;
}

}  // namespace
}  // namespace mptune::testing

// Compares baselines for cutting a chain with the exact optimum, on every public chain. `--markdown`: prints only tables, for a README;
// `--every-cut`: also allows cuts before layers that work in place, as other planners do.
int main(int argc, char** argv) {
  bool markdown = false;
  bool every_cut = false;
  for (int i = 1; i < argc; ++i) {
    markdown = markdown || std::strcmp(argv[i], "--markdown") == 0;
    every_cut = every_cut || std::strcmp(argv[i], "--every-cut") == 0;
  }
  return mptune::testing::run(markdown, every_cut);
}
