#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>

#include "profiler/base/index.h"
#include "profiler/model/exported/arguments.h"
#include "profiler/model/exported/draws.h"
#include "profiler/model/layers/layer.h"

namespace mptune::profiler {

/// Context of one run of a graph.
struct ProgramRun {
  at::Device device = at::kCPU;
  bool recomputing = false;
  bool evaluating = false;     ///< batch norms that have running statistics normalise by them
  DrawScope* draws = nullptr;  ///< notified before every node that draws random numbers; nullptr: LibTorch's own random numbers
  /// Called instead of updating a batch norm's running statistics, with the index of its running mean and this forward's statistics.
  /// Not called while recomputing.
  std::function<void(int running_mean, BatchStatistics statistics)> batch_norm;
};

/// Two values, one of which may be a view of the other.
struct ValueAlias {
  int made = -1, read = -1;
  bool certain = true;  ///< false: depends on the layout of the value that is read (reshape, contiguous)
};

/// A graph of an exported program, ready to run: operators are resolved through LibTorch's dispatcher, arguments are bound.
/// Immutable; several threads may run it, each with its own values.
/// Runs the training form: batch norms and dropout as exported, in-place operators in place. Batch norms in training report their
/// statistics to ProgramRun::batch_norm instead of updating running statistics and batch counters.
class ExportedGraph {
 public:
  /// `program` must outlive it; `where` names the file in messages.
  /// Throws Error with operator, module and Python line: an operator that LibTorch lacks, unsuitable arguments, an unknown higher-order
  /// operator.
  ExportedGraph(const ExportedProgram& program, std::string where);

  [[nodiscard]] int nodes() const { return static_cast<int>(nodes_.size()); }
  [[nodiscard]] int values() const { return static_cast<int>(graph_.values.size()); }

  /// Runs one node. Failures throw c10::Error with operator, module and Python line in one line; out of memory and device failures are
  /// rethrown unchanged. Throws Error for random numbers that would depend on the partition.
  void run_node(int node, ProgramValues& values, const ProgramRun& run) const;
  /// Runs all nodes on `inputs` and returns the graph's outputs.
  [[nodiscard]] std::vector<c10::IValue> run(const std::vector<c10::IValue>& inputs, const ProgramRun& run) const;

  /// Returns the values that a node reads. makes() returns those that it computes.
  [[nodiscard]] const std::vector<int>& reads(int node) const { return nodes_[as_index(node)].reads; }
  [[nodiscard]] const std::vector<int>& makes(int node) const { return nodes_[as_index(node)].makes; }
  /// True if the node adds one term to the gradient of each tensor that it reads once, and does not return one of these tensors itself.
  [[nodiscard]] bool adds_one_term(int node) const;
  /// Returns the values that the node writes to in place.
  [[nodiscard]] const std::vector<int>& writes(int node) const { return nodes_[as_index(node)].writes; }
  /// Returns pairs of a value that the node computes and one that it reads which may share memory; includes those of regions.
  [[nodiscard]] const std::vector<ValueAlias>& aliases(int node) const { return nodes_[as_index(node)].aliases; }
  /// Returns the first value that may share this value's memory; the value itself if none does.
  [[nodiscard]] int memory_of(int value) const { return memory_[as_index(value)]; }
  /// True if the node draws random numbers, or a region of it does.
  [[nodiscard]] bool random(int node) const { return nodes_[as_index(node)].draws.random; }
  /// Throws Error for the first node (including regions) whose random numbers would depend on the partition.
  void check_draws() const;
  /// Returns the index of the running mean if the node is a batch norm in training; else -1.
  [[nodiscard]] int running_mean(int node) const { return nodes_[as_index(node)].running_mean; }
  [[nodiscard]] int running_variance(int node) const { return nodes_[as_index(node)].running_variance; }
  /// Returns the momentum of a batch norm in training.
  [[nodiscard]] double momentum(int node) const { return nodes_[as_index(node)].momentum; }
  /// Returns the index of the batch counter that the node increments; else -1.
  [[nodiscard]] int batch_counter(int node) const { return nodes_[as_index(node)].batch_counter; }
  /// Returns a text such as "aten.conv2d in layer1.0.conv1 (net.py:12, x = self.conv1(x))".
  [[nodiscard]] std::string describe(int node) const;

 private:
  /// State shared by all graphs of a program while they are bound. Nodes are numbered across all graphs.
  struct Shared {
    SampleSymbols symbols;
    std::int64_t nodes = 0;
    std::string made_with;  ///< "torch 2.11.0"
  };
  enum class Kind { operation, batch_norm, count_batch, symbolic, set_grad, autocast, conditional };
  struct Node {
    Kind kind = Kind::operation;
    std::optional<c10::OperatorHandle> operation;
    int symbolic = 0;
    std::vector<BoundArgument> arguments;
    std::vector<int> regions;
    std::vector<int> reads, makes, writes;
    std::vector<ValueAlias> aliases;
    NodeDraws draws;
    int running_mean = -1;
    int running_variance = -1;
    int batch_counter = -1;
    double momentum = 0;
  };

  ExportedGraph(const ProgramGraph& graph, std::string where, const std::vector<SampleAxis>& given, Shared& shared);

  void bind_all(const std::vector<SampleAxis>& given, Shared& shared);
  [[noreturn]] void refuse(int node, const std::string& why, const Shared& shared) const;
  void bind(const ProgramNode& source, Node& node, Shared& shared);
  void bind_operation(const ProgramNode& source, Node& node);
  void bind_training(const ProgramNode& source, Node& node);
  void bind_region(const ProgramNode& source, Node& node, Shared& shared);
  void find_aliases(const ProgramNode& source, Node& node) const;
  void find_region_aliases(const ProgramNode& source, std::size_t first, const ExportedGraph& inner, Node& node) const;
  void find_memory();
  void relax_views();
  [[nodiscard]] bool is_tensor(int value) const { return graph_.values[as_index(value)].kind == ValueDescription::Kind::tensor; }
  void check_types() const;
  void check_outputs(const ProgramNode& source, const Node& node) const;
  void dispatch(int node, ProgramValues& values, const ProgramRun& run) const;
  static std::string message_of(const std::exception& error);
  void run_operation(const Node& node, ProgramValues& values, const ProgramRun& run, std::vector<c10::IValue>& stack) const;
  void run_batch_norm(const Node& node, ProgramValues& values, const ProgramRun& run, std::vector<c10::IValue>& stack) const;
  [[nodiscard]] std::vector<c10::IValue> run_region(const Node& node, ProgramValues& values, const ProgramRun& run) const;
  void store(const ProgramNode& source, std::vector<c10::IValue>& results, ProgramValues& values) const;

  const ProgramGraph& graph_;
  std::string where_;
  std::vector<Node> nodes_;
  std::vector<std::unique_ptr<ExportedGraph>> graphs_;  ///< by region; bound together with the node that runs it
  std::vector<std::optional<SampleAxis>> axes_;         ///< by value
  std::vector<int> memory_;                             ///< by value
  std::int64_t first_node_ = 0;                         ///< number of the first node in the whole program
};

}  // namespace mptune::profiler
