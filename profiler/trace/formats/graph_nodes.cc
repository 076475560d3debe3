#include "profiler/trace/formats/graph_nodes.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <unordered_map>

#include "profiler/base/index.h"
#include "profiler/trace/values/profile_limits.h"

namespace mptune::profiler {
namespace {

constexpr std::string_view kArrow = " -- ";

// Returns 12 for "node12". Names that do not end in a number come last.
std::int64_t trailing_number(const std::string& name) {
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(name.data() + digits, name.data() + name.size(), number);
  return fault == std::errc{} ? number : std::numeric_limits<std::int64_t>::max();
}

class GraphReader {
 public:
  explicit GraphReader(TextInput& input)
      : lines_(input, "give a graph.txt as PipeDream's profiler writes it: node lines with times (ms) and sizes (bytes), then edges") {}

  std::vector<GraphNode> read() {
    while (lines_.next())
      if (lines_.line().front() == '\t' || lines_.line().front() == ' ')
        read_edge();
      else
        read_node();
    if (nodes_.empty()) lines_.refuse("the file holds no nodes");
    connect();
    return in_order();
  }

 private:
  struct NamedEdge {
    std::string from;
    std::string to;
    std::int64_t line = 0;
  };

  void read_edge() {
    const std::string_view text = trimmed(lines_.line());
    const std::size_t arrow = text.find(kArrow);
    if (arrow == std::string_view::npos || text.find(kArrow, arrow + 1) != std::string_view::npos)
      lines_.refuse("the edge is not of the form FROM -- TO");
    if (edges_.size() >= kMostProfileEdges) lines_.refuse("the graph has more than 100,000 edges");
    edges_.push_back(
        {std::string(trimmed(text.substr(0, arrow))), std::string(trimmed(text.substr(arrow + kArrow.size()))), lines_.number()});
  }

  void read_node() {
    const std::string_view text = lines_.line();
    const std::size_t first = text.find(kArrow);
    const std::size_t last = text.rfind(kArrow);
    if (first == std::string_view::npos || last == first)
      lines_.refuse("the node is not of the form NAME -- DESCRIPTION -- times and sizes");
    GraphNode node;
    node.name = trimmed(text.substr(0, first));
    node.description = trimmed(text.substr(first + kArrow.size(), last - first - kArrow.size()));
    read_fields(text.substr(last + kArrow.size()), node);
    if (nodes_.size() >= kMostProfileLayers) lines_.refuse("the graph has more than 10,000 nodes");
    const auto [known, is_new] = index_.try_emplace(node.name, static_cast<int>(nodes_.size()));
    if (!is_new) lines_.refuse("duplicate node " + node.name);
    nodes_.push_back(std::move(node));
  }

  void read_fields(std::string_view text, GraphNode& node) {
    forward_ = backward_ = activation_ = parameters_ = -1;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      read_field(trimmed(text.substr(begin, end - begin)));
      begin = end + 1;
    }
    if (forward_ < 0 || backward_ < 0 || activation_ < 0 || parameters_ < 0)
      lines_.refuse("the node needs forward_compute_time, backward_compute_time, activation_size and parameter_size");
    seconds_ += forward_ + backward_;
    bytes_ += activation_ + parameters_;
    if (seconds_ > kMostProfileSeconds) lines_.refuse("the layers take more than an hour");
    if (bytes_ > kMostProfileBytes) lines_.refuse("the layers have more than 4 TiB");
    node.forward_s = forward_;
    node.backward_s = backward_;
    node.activation_bytes = std::llround(activation_);
    node.parameters_bytes = std::llround(parameters_);
  }

  void read_field(std::string_view field) {
    const std::size_t sign = field.find('=');
    if (sign == std::string_view::npos) lines_.refuse("the node's values are not of the form NAME=NUMBER");
    const std::string_view name = field.substr(0, sign);
    const std::string_view value = field.substr(sign + 1);
    if (name == "forward_compute_time")
      set(forward_, name, lines_.quantity(value, name, kMostProfileSeconds * 1e3) / 1e3);
    else if (name == "backward_compute_time")
      set(backward_, name, lines_.quantity(value, name, kMostProfileSeconds * 1e3) / 1e3);
    else if (name == "activation_size")
      set(activation_, name, sizes(value, name));
    else if (name == "parameter_size")
      set(parameters_, name, lines_.quantity(value, name, kMostProfileBytes));
  }

  void set(double& target, std::string_view name, double value) const {
    if (target >= 0) lines_.refuse("duplicate " + std::string(name));
    target = value;
  }

  // Reads "12.0" or "[12.0; 4.0]".
  [[nodiscard]] double sizes(std::string_view text, std::string_view name) const {
    text = trimmed(text);
    if (!text.starts_with('[')) return lines_.quantity(text, name, kMostProfileBytes);
    if (!text.ends_with(']')) lines_.refuse(std::string(name) + " has no closing bracket");
    text = text.substr(1, text.size() - 2);
    double sum = 0;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(';', begin), text.size());
      sum += lines_.quantity(text.substr(begin, end - begin), name, kMostProfileBytes);
      begin = end + 1;
    }
    return sum;
  }

  [[nodiscard]] int known(const std::string& name, std::int64_t line) const {
    const auto found = index_.find(name);
    if (found == index_.end()) lines_.refuse("the edge names an unknown node", line);
    return found->second;
  }

  void connect() {
    consumers_.resize(nodes_.size());
    for (const NamedEdge& edge : edges_) {
      const int from = known(edge.from, edge.line);
      const int to = known(edge.to, edge.line);
      if (from == to) lines_.refuse("the edge leads from a node to itself", edge.line);
      std::vector<int>& producers = nodes_[as_index(to)].from;
      if (std::find(producers.begin(), producers.end(), from) != producers.end()) continue;
      producers.push_back(from);
      consumers_[as_index(from)].push_back(to);
    }
  }

  // Kahn's algorithm; among nodes without open producers, the one with the smallest number comes next.
  std::vector<GraphNode> in_order() {
    std::vector<std::size_t> missing(nodes_.size());
    for (std::size_t n = 0; n < nodes_.size(); ++n) missing[n] = nodes_[n].from.size();
    using Ready = std::pair<std::int64_t, std::size_t>;
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    for (std::size_t n = 0; n < nodes_.size(); ++n)
      if (missing[n] == 0) ready.emplace(trailing_number(nodes_[n].name), n);
    std::vector<int> place(nodes_.size(), -1);
    std::vector<GraphNode> ordered;
    while (!ready.empty()) {
      const std::size_t n = ready.top().second;
      ready.pop();
      place[n] = static_cast<int>(ordered.size());
      ordered.push_back(nodes_[n]);
      for (int& producer : ordered.back().from) producer = place[as_index(producer)];
      std::sort(ordered.back().from.begin(), ordered.back().from.end());
      for (const int consumer : consumers_[n]) {
        const auto c = as_index(consumer);
        if (--missing[c] == 0) ready.emplace(trailing_number(nodes_[c].name), c);
      }
    }
    if (ordered.size() < nodes_.size()) refuse_cycle(place);
    return ordered;
  }

  // Every node that was not ordered has a producer that was not ordered. So following these producers ends in a cycle.
  [[noreturn]] void refuse_cycle(const std::vector<int>& place) const {
    const auto open = [&](int n) { return place[as_index(n)] < 0; };
    auto at = static_cast<int>(std::find(place.begin(), place.end(), -1) - place.begin());
    for (std::size_t steps = 0; steps < nodes_.size(); ++steps) {
      const std::vector<int>& from = nodes_[as_index(at)].from;
      at = *std::find_if(from.begin(), from.end(), open);
    }
    const std::string& name = nodes_[as_index(at)].name;
    const auto edge =
        std::find_if(edges_.begin(), edges_.end(), [&](const NamedEdge& e) { return e.to == name && open(index_.at(e.from)); });
    lines_.refuse("the edges form a cycle through " + name, edge->line);
  }

  TextLines lines_;
  std::vector<GraphNode> nodes_;
  std::unordered_map<std::string, int> index_;
  std::vector<NamedEdge> edges_;
  std::vector<std::vector<int>> consumers_;
  double forward_ = -1;
  double backward_ = -1;
  double activation_ = -1;
  double parameters_ = -1;
  double seconds_ = 0;
  double bytes_ = 0;
};

}  // namespace

std::vector<GraphNode> read_graph_nodes(TextInput& input) {
  return GraphReader(input).read();
}

}  // namespace mptune::profiler
