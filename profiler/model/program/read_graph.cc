#include "profiler/model/program/read_graph.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <unordered_map>
#include <utility>

#include "profiler/base/index.h"

namespace mptune::profiler {
namespace {

constexpr int kDeepestRegion = 16;
constexpr std::size_t kMostNodes = 100'000;
constexpr std::size_t kMostValues = 200'000;

SymbolicSize size_of(const JsonField& field) {
  const auto [kind, value] = field.only();
  if (kind == "as_int") return SymbolicSize(value.whole());
  if (kind == "as_expr") return SymbolicSize::parse(value.at("expr_str").text());
  field.fail("a size of kind '" + kind + "'");
}

/// Reads a number; numbers beyond JSON's are written as strings.
double number_of(const JsonField& field) {
  if (!field.is_text()) return field.number();
  if (field.text() == "Infinity") return std::numeric_limits<double>::infinity();
  if (field.text() == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (field.text() != "NaN") field.refuse("must be a number");
  return std::numeric_limits<double>::quiet_NaN();
}

/// Takes path and class of the module that made the call from the module stack, whose last entry "L__self__blocks_0,blocks.0,net.Block" is.
/// Nodes that torch.export added itself (sizes of inputs) have a placeholder instead of a stack.
void read_module(const std::string& stack, ProgramNode& node) {
  if (stack.starts_with("_empty_nn_module_stack")) return;
  const std::string last = stack.substr(stack.rfind(';') + 1);
  const std::size_t path = last.find(','), name = last.rfind(',');
  if (path == std::string::npos || name == path) return;
  node.module = last.substr(path + 1, name - path - 1);
  node.module_class = last.substr(name + 1);
}

/// `File "net.py", line 12, in forward` of a stack of Python, and the code in the line below it.
struct PythonLine {
  std::string path, number, code;
};

std::vector<PythonLine> lines_of(const std::string& stack) {
  const std::string file = "File \"", number = "\", line ";
  std::vector<PythonLine> lines;
  for (std::size_t start = stack.find(file); start != std::string::npos; start = stack.find(file, start + file.size())) {
    const std::size_t line = stack.find(number, start), end = stack.find('\n', start);
    if (line == std::string::npos || end == std::string::npos || line > end) break;
    const std::size_t comma = stack.find(',', line + number.size());
    const std::size_t code = stack.find_first_not_of(" \n", end);
    lines.push_back({stack.substr(start + file.size(), line - start - file.size()),
                     stack.substr(line + number.size(), comma - line - number.size()),
                     code == std::string::npos ? "" : stack.substr(code, stack.find('\n', code) - code)});
  }
  return lines;
}

bool is_of_torch(const PythonLine& line) {
  const auto has = [&](const char* part) { return line.path.find(part) != std::string::npos; };
  return has("/torch/nn/") || has("/torch/utils/") || has("/torch/_") || has("/torch/functional.py");
}

/// Returns the user's line: the innermost of the stack that is neither torch's nor the exporter's (which calls the model with its loss).
std::string source_of(const std::string& stack) {
  const std::vector<PythonLine> lines = lines_of(stack);
  if (lines.empty()) return "";
  const auto is_users = [](const PythonLine& line) { return !is_of_torch(line) && !line.path.ends_with("/mptune_export.py"); };
  const auto innermost = std::find_if(lines.rbegin(), lines.rend(), is_users);
  const PythonLine& line = innermost == lines.rend() ? lines.front() : *innermost;
  return line.path.substr(line.path.rfind('/') + 1) + ":" + line.number + (line.code.empty() ? "" : ", " + line.code);
}

class GraphReader {
 public:
  explicit GraphReader(int depth) : depth_(depth) {}

  ProgramGraph read(const JsonField& field) {
    describe(field);
    field.at("inputs").each([&](const JsonField& input) { graph_.inputs.push_back(argument(input, /*made=*/true)); });
    field.at("nodes").each([&](const JsonField& node) { read_node(node); });
    field.at("outputs").each([&](const JsonField& output) { graph_.outputs.push_back(argument(output, /*made=*/false)); });
    return std::move(graph_);
  }

 private:
  void describe(const JsonField& field) {
    field.at("tensor_values").each_member([&](const std::string& name, const JsonField& value) {
      tensors_.emplace(name, read_tensor_description(value));
    });
    field.at("sym_int_values").each_member([&](const std::string& name, const JsonField& value) { sizes_.emplace(name, size_of(value)); });
  }

  void read_node(const JsonField& field) {
    if (graph_.nodes.size() >= kMostNodes) field.fail("more than " + std::to_string(kMostNodes) + " nodes");
    ProgramNode node;
    node.target = field.at("target").text();
    if (field.has("metadata")) {
      const JsonField metadata = field.at("metadata");
      if (metadata.has("nn_module_stack")) read_module(metadata.at("nn_module_stack").text(), node);
      if (metadata.has("stack_trace")) node.source = source_of(metadata.at("stack_trace").text());
    }
    field.at("inputs").each([&](const JsonField& input) {
      node.inputs.push_back({input.at("name").text(), argument(input.at("arg"), /*made=*/false)});
    });
    field.at("outputs").each([&](const JsonField& output) { node.outputs.push_back(argument(output, /*made=*/true)); });
    graph_.nodes.push_back(std::move(node));
  }

  ProgramValue make(const JsonField& field, ValueDescription::Kind kind) {
    if (graph_.values.size() >= kMostValues) field.fail("more than " + std::to_string(kMostValues) + " values");
    ValueDescription value{field.text(), kind, {}, {}};
    if (!by_name_.emplace(value.name, static_cast<int>(graph_.values.size())).second) field.fail("'" + value.name + "' is made twice");
    if (const auto found = tensors_.find(value.name); found != tensors_.end()) value.tensor = found->second;
    if (const auto found = sizes_.find(value.name); found != sizes_.end()) value.size = found->second;
    graph_.values.push_back(std::move(value));
    return {static_cast<int>(graph_.values.size()) - 1};
  }
  ProgramValue use(const JsonField& field, ValueDescription::Kind kind) const {
    const auto found = by_name_.find(field.text());
    if (found == by_name_.end()) field.fail("'" + field.text() + "' is used before anything makes it");
    if (graph_.values[as_index(found->second)].kind != kind) field.fail("'" + field.text() + "' is of another kind");
    return {found->second};
  }
  ProgramValue value(const JsonField& field, ValueDescription::Kind kind, bool made) { return made ? make(field, kind) : use(field, kind); }
  ProgramValue tensor(const JsonField& field, bool made) { return value(field.at("name"), ValueDescription::Kind::tensor, made); }
  ProgramValue optional_tensor(const JsonField& field, bool made) {
    const auto [kind, entry] = field.only();
    if (kind == "as_none") return {};
    if (kind == "as_tensor") return tensor(entry, made);
    field.fail("an entry of kind '" + kind + "'");
  }

  /// Reads a number: a known one in the field `known`, or the name of a value.
  template <class Number, class Known>
  ProgramNumber<Number> number(const JsonField& field, const char* known, ValueDescription::Kind value_kind, bool made, Known read) {
    const auto [kind, entry] = field.only();
    if (kind == known) return {read(entry), {}};
    if (kind == "as_name") return {Number{}, value(entry, value_kind, made)};
    field.fail("a number of kind '" + kind + "'");
  }
  ProgramNumber<std::int64_t> sym_int(const JsonField& field, bool made) {
    return number<std::int64_t>(field, "as_int", ValueDescription::Kind::integer, made, [](const JsonField& f) { return f.whole(); });
  }
  ProgramNumber<double> sym_float(const JsonField& field, bool made) {
    return number<double>(field, "as_float", ValueDescription::Kind::number, made, [](const JsonField& f) { return number_of(f); });
  }
  ProgramNumber<bool> sym_bool(const JsonField& field, bool made) {
    return number<bool>(field, "as_bool", ValueDescription::Kind::boolean, made, [](const JsonField& f) { return f.truth(); });
  }
  template <class Number>
  static ProgramArgument one(const ProgramNumber<Number>& given) {
    if (given.value) return *given.value;
    return given.known;
  }

  ProgramRegion region(const JsonField& field) {
    if (depth_ >= kDeepestRegion) field.fail("regions nested more than " + std::to_string(kDeepestRegion) + " deep");
    graph_.graphs.push_back(GraphReader(depth_ + 1).read(field.at("graph")));
    return {static_cast<int>(graph_.graphs.size()) - 1};
  }

  /// `made`: its names define new values; otherwise they refer to existing ones.
  ProgramArgument argument(const JsonField& field, bool made) {
    using Maker = std::function<ProgramArgument(GraphReader&, const JsonField&, bool)>;
    using Field = const JsonField&;
    static const std::unordered_map<std::string, Maker> makers{
        {"as_none", [](GraphReader&, Field, bool) { return ProgramArgument(ProgramNone{}); }},
        {"as_tensor", [](GraphReader& r, Field f, bool m) { return ProgramArgument(r.tensor(f, m)); }},
        {"as_tensors",
         [](GraphReader& r, Field f, bool m) { return ProgramArgument(f.list([&](Field entry) { return r.tensor(entry, m); })); }},
        {"as_optional_tensor",
         [](GraphReader& r, Field f, bool m) {
           const ProgramValue found = r.optional_tensor(f, m);
           return found.index < 0 ? ProgramArgument(ProgramNone{}) : ProgramArgument(found);
         }},
        {"as_optional_tensors",
         [](GraphReader& r, Field f, bool m) { return ProgramArgument(f.list([&](Field entry) { return r.optional_tensor(entry, m); })); }},
        {"as_int", [](GraphReader&, Field f, bool) { return ProgramArgument(f.whole()); }},
        {"as_ints",
         [](GraphReader&, Field f, bool) {
           return ProgramArgument(f.list([](Field entry) { return ProgramNumber<std::int64_t>{entry.whole(), {}}; }));
         }},
        {"as_sym_int", [](GraphReader& r, Field f, bool m) { return one(r.sym_int(f, m)); }},
        {"as_sym_ints",
         [](GraphReader& r, Field f, bool m) { return ProgramArgument(f.list([&](Field entry) { return r.sym_int(entry, m); })); }},
        {"as_float", [](GraphReader&, Field f, bool) { return ProgramArgument(number_of(f)); }},
        {"as_floats",
         [](GraphReader&, Field f, bool) {
           return ProgramArgument(f.list([](Field entry) { return ProgramNumber<double>{number_of(entry), {}}; }));
         }},
        {"as_sym_float", [](GraphReader& r, Field f, bool m) { return one(r.sym_float(f, m)); }},
        {"as_sym_floats",
         [](GraphReader& r, Field f, bool m) { return ProgramArgument(f.list([&](Field entry) { return r.sym_float(entry, m); })); }},
        {"as_bool", [](GraphReader&, Field f, bool) { return ProgramArgument(f.truth()); }},
        {"as_bools",
         [](GraphReader&, Field f, bool) {
           return ProgramArgument(f.list([](Field entry) { return ProgramNumber<bool>{entry.truth(), {}}; }));
         }},
        {"as_sym_bool", [](GraphReader& r, Field f, bool m) { return one(r.sym_bool(f, m)); }},
        {"as_sym_bools",
         [](GraphReader& r, Field f, bool m) { return ProgramArgument(f.list([&](Field entry) { return r.sym_bool(entry, m); })); }},
        {"as_string", [](GraphReader&, Field f, bool) { return ProgramArgument(f.text()); }},
        {"as_strings", [](GraphReader&, Field f, bool) { return ProgramArgument(f.list([](Field entry) { return entry.text(); })); }},
        {"as_scalar_type", [](GraphReader&, Field f, bool) { return ProgramArgument(ProgramScalarType{code_of(f)}); }},
        {"as_layout", [](GraphReader&, Field f, bool) { return ProgramArgument(ProgramLayout{code_of(f)}); }},
        {"as_memory_format", [](GraphReader&, Field f, bool) { return ProgramArgument(ProgramMemoryFormat{code_of(f)}); }},
        {"as_device", [](GraphReader&, Field f, bool) { return ProgramArgument(ProgramDevice{f.at("type").text()}); }},
        {"as_complex",
         [](GraphReader&, Field f, bool) {
           return ProgramArgument(ProgramComplex{number_of(f.at("real")), number_of(f.at("imag"))});
         }},
        {"as_graph", [](GraphReader& r, Field f, bool) { return ProgramArgument(r.region(f)); }},
        {"as_int_lists",
         [](GraphReader&, Field f, bool) {
           return ProgramArgument(f.list([](Field row) { return row.list([](Field entry) { return entry.whole(); }); }));
         }},
    };
    const auto [kind, entry] = field.only();
    const auto maker = makers.find(kind);
    if (maker == makers.end()) field.fail("arguments of kind '" + kind.substr(0, 40) + "' can't be run");
    return maker->second(*this, entry, made);
  }

  static int code_of(const JsonField& field) {
    const std::int64_t code = field.whole();
    if (code < 0 || code > 1000) field.fail("unknown code");
    return static_cast<int>(code);
  }

  int depth_;
  ProgramGraph graph_;
  std::unordered_map<std::string, int> by_name_;
  std::unordered_map<std::string, TensorDescription> tensors_;
  std::unordered_map<std::string, SymbolicSize> sizes_;
};

}  // namespace

TensorDescription read_tensor_description(const JsonField& field) {
  TensorDescription tensor;
  tensor.scalar_type = static_cast<int>(std::clamp<std::int64_t>(field.at("dtype").whole(), 0, 1000));
  tensor.sizes = field.at("sizes").list(size_of);
  tensor.strides = field.at("strides").list(size_of);
  tensor.storage_offset = size_of(field.at("storage_offset"));
  tensor.requires_grad = field.at("requires_grad").truth();
  if (tensor.strides.size() != tensor.sizes.size()) field.fail("sizes and strides differ in number");
  return tensor;
}

ProgramGraph read_graph(const JsonField& field) {
  return GraphReader(0).read(field);
}

}  // namespace mptune::profiler
