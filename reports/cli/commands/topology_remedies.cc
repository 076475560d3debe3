#include "reports/cli/commands/topology_remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "planner/plan/plan_error.h"
#include "profiler/base/error.h"
#include "profiler/base/text.h"
#include "profiler/base/units.h"
#include "reports/render/option_names.h"

namespace mptune::reports {
namespace {

using planner::Field;
using planner::Topology;
using planner::UniformSpace;

constexpr std::int64_t kActionsOfOneTry = 3'000'000;  // a second at most
constexpr int kMostCapsTriedOnPaper = 6;

class PaperChanges {
 public:
  PaperChanges(const PaperQuestion& question, const SearchResult& failed) : question_(question), failed_(failed) {}

  std::vector<std::string> all() {
    leave_out_options();
    if (changes_.empty()) {
      halve_batch();
      add_hosts();
      raise_memory();
    }
    return std::move(changes_);
  }

 private:
  /// Returns the result of a search that ends with the first plan.
  SearchResult tried(UniformSpace space, const Topology& topology) {
    bool found = false;
    space.keep = 1;
    space.memory_bytes = 0;
    space.most_actions = kActionsOfOneTry;
    space.improved = [&](const Candidate&) { found = true; };
    space.stop = [&] { return found || question_.stop(); };
    return planner::if_possible([&] { return planner::search_uniform(space, topology, question_.profile); }).value_or(SearchResult{});
  }
  bool fits(const UniformSpace& space, const Topology& topology) { return !tried(space, topology).ranked.empty(); }

  static void release(UniformSpace& space, Field field) {
    if (field == Field::stages) space.stage_counts.clear();
    if (field == Field::microbatches) space.microbatch_counts.clear();
    if (field == Field::schedule) space.schedules = UniformSpace{}.schedules;
  }

  void leave_out_options() {
    UniformSpace without_all = question_.space;
    std::vector<std::string> names;
    for (const Field field : question_.given) {
      UniformSpace without = question_.space;
      release(without, field);
      release(without_all, field);
      names.push_back(option_of(field));
      if (fits(without, question_.topology)) changes_.push_back(names.back() + " left out");
    }
    if (changes_.empty() && names.size() > 1 && fits(without_all, question_.topology))
      changes_.push_back(join(names, " and ") + " left out");
  }

  /// Finds the largest of the repeated halves of the batch that fits. Where the smallest does not fit, none does.
  void halve_batch() {
    std::vector<int> batches;
    for (int batch = question_.space.batch / 2; batch > 0; batch /= 2) batches.push_back(batch);
    const auto batch_fits = [&](int batch) {
      UniformSpace space = question_.space;
      space.batch = batch;
      return fits(space, question_.topology);
    };
    while (!batches.empty() && !has_shapes(batches.back())) batches.pop_back();
    if (batches.empty() || !batch_fits(batches.back())) return;
    const auto largest = std::partition_point(batches.begin(), batches.end() - 1, [&](int batch) { return !batch_fits(batch); });
    changes_.push_back("--batch " + std::to_string(*largest));
  }

  /// Returns true if one of the given numbers of micro-batches divides the batch.
  [[nodiscard]] bool has_shapes(int batch) const {
    const std::vector<int>& counts = question_.space.microbatch_counts;
    return counts.empty() || std::ranges::any_of(counts, [&](int count) { return batch % count == 0; });
  }

  void add_hosts() {
    for (std::size_t g = 0; g < question_.topology.groups.size(); ++g)
      if (const int hosts = hosts_that_fit(g); hosts > 0)
        changes_.push_back(fmt::format("{} hosts of '{}' in the topology file", hosts, question_.topology.groups[g].name));
  }

  /// Doubles the hosts of a group until a plan fits, then halves the step; 0: none fits, or there are no links between hosts.
  int hosts_that_fit(std::size_t group) {
    if (question_.topology.between.bytes_per_second <= 0) return 0;
    const auto with = [&](int hosts) {
      Topology topology = question_.topology;
      topology.groups[group].hosts = hosts;
      return topology;
    };
    const auto too_many = [&](int hosts) { return hosts > Topology::kMostDevices || with(hosts).device_count() > most_devices(); };
    int few = question_.topology.groups[group].hosts;
    int enough = 2 * few;
    while (!too_many(enough) && !fits(question_.space, with(enough))) {
      few = enough;
      enough *= 2;
    }
    if (too_many(enough)) return 0;
    while (enough - few > 1) {
      const int middle = few + (enough - few) / 2;
      (fits(question_.space, with(middle)) ? enough : few) = middle;
    }
    return enough;
  }

  /// Every stage needs a layer, and every replica a sample: more devices than that are of no use.
  [[nodiscard]] int most_devices() const {
    const auto most = static_cast<std::int64_t>(question_.profile.layers.size()) * question_.space.batch;
    return static_cast<int>(std::min<std::int64_t>(Topology::kMostDevices, std::max<std::int64_t>(most, 1)));
  }

  /// Finds a larger --memory that fits, which is the same for all hosts.
  void raise_memory() {
    std::int64_t cap = 0;
    for (const planner::HostGroup& group : question_.topology.groups) cap = std::max(cap, group.memory_bytes);
    std::int64_t more = failed_.smallest_excess_bytes;
    for (int tries = 0; tries < kMostCapsTriedOnPaper && cap > 0 && more > 0; ++tries) {
      const std::string size = size_option(cap + more);
      Topology topology = question_.topology;
      for (planner::HostGroup& group : topology.groups) group.memory_bytes = parse_bytes(size, "--memory");
      const SearchResult result = tried(question_.space, topology);
      if (!result.ranked.empty()) {
        changes_.push_back("--memory " + size);
        return;
      }
      more += std::max(more / 4, result.smallest_excess_bytes);
    }
  }

  const PaperQuestion& question_;
  const SearchResult& failed_;
  std::vector<std::string> changes_;
};

}  // namespace

std::vector<std::string> changes_on_paper(const PaperQuestion& question, const SearchResult& failed) {
  return PaperChanges(question, failed).all();
}

}  // namespace mptune::reports
