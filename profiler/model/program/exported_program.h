#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "profiler/model/program/symbolic_size.h"

/// A program that torch.export wrote (models/model.json of a `.pt2` archive, schema major 8), as plain values.
/// Names are resolved to checked indices. Enumerations keep the file's numbers, see torch/_export/serde/schema.py of PyTorch 2.11.
namespace mptune::profiler {

/// Index into ProgramGraph::values.
struct ProgramValue {
  int index = -1;
  bool operator==(const ProgramValue&) const = default;
};

struct ProgramNone {
  bool operator==(const ProgramNone&) const = default;
};
/// A known number, or (if `value` is set) one that an earlier node computes.
template <class Number>
struct ProgramNumber {
  Number known{};
  std::optional<ProgramValue> value;
};
/// An entry of a list of tensors; index -1 for None.
using ProgramTensors = std::vector<ProgramValue>;
using ProgramInts = std::vector<ProgramNumber<std::int64_t>>;
using ProgramFloats = std::vector<ProgramNumber<double>>;
using ProgramBools = std::vector<ProgramNumber<bool>>;
struct ProgramScalarType {
  int code = 0;  ///< 7: float32
};
struct ProgramLayout {
  int code = 0;  ///< 7: strided
};
struct ProgramMemoryFormat {
  int code = 0;  ///< 1: contiguous
};
struct ProgramDevice {
  std::string type;  ///< "cpu", "cuda"
};
struct ProgramComplex {
  double real = 0, imaginary = 0;
};
/// Index into ProgramGraph::graphs.
struct ProgramRegion {
  int index = -1;
};

using ProgramArgument =
    std::variant<ProgramNone, ProgramValue, ProgramTensors, std::int64_t, ProgramInts, double, ProgramFloats, bool, ProgramBools,
                 std::string, std::vector<std::string>, ProgramScalarType, ProgramLayout, ProgramMemoryFormat, ProgramDevice,
                 ProgramComplex, ProgramRegion, std::vector<std::vector<std::int64_t>>>;

struct NamedArgument {
  std::string name;  ///< name in the operator's schema; "" for higher-order operators
  ProgramArgument argument;
};

/// One call of an operator.
struct ProgramNode {
  std::string target;  ///< "torch.ops.aten.conv2d.default", "_operator.mul"
  std::vector<NamedArgument> inputs;
  std::vector<ProgramArgument> outputs;  ///< values that this node computes: ProgramValue, ProgramTensors or ProgramNone
  std::string module;                    ///< path of the module that made the call, "blocks.0.qkv"; "" for the model itself
  std::string module_class;              ///< "torch.nn.modules.linear.Linear"
  std::string source;                    ///< the user's Python line: "net.py:12, h = self.fc(x)"
  bool without_gradients = false;        ///< as in torch.no_grad()
};

struct TensorDescription {
  int scalar_type = 0;  ///< as ProgramScalarType
  std::vector<SymbolicSize> sizes;
  std::vector<SymbolicSize> strides;
  SymbolicSize storage_offset;
  bool requires_grad = false;
};

struct ValueDescription {
  enum class Kind { tensor, integer, boolean, number };
  std::string name;
  Kind kind = Kind::tensor;
  std::optional<TensorDescription> tensor;
  std::optional<SymbolicSize> size;  ///< of integers
};

struct ProgramGraph {
  std::vector<ValueDescription> values;
  std::vector<ProgramArgument> inputs;  ///< ProgramValue, or a constant
  std::vector<ProgramNode> nodes;       ///< ordered: a node reads only inputs and values of earlier nodes
  std::vector<ProgramArgument> outputs;
  std::vector<ProgramGraph> graphs;  ///< of higher-order operators
};

/// What an input of the program is: ordered as ProgramGraph::inputs.
struct ProgramInput {
  enum class Kind { user, parameter, buffer, constant_tensor, constant };
  Kind kind = Kind::user;
  std::string name;  ///< of parameter, buffer or constant: "blocks.0.qkv.weight"
  bool persistent = true;
};

struct ProgramOutput {
  enum class Kind { user, loss, buffer_mutation };
  Kind kind = Kind::user;
  std::string name;  ///< of the buffer
};

struct SymbolRange {
  std::optional<std::int64_t> least, most;
};

/// A tensor stored in the archive.
struct StoredTensor {
  std::string record;  ///< "weight_0"; tensors of one record share their memory
  bool parameter = false;
  bool pickled = false;
  TensorDescription description;
};

struct ExportedProgram {
  ProgramGraph graph;
  std::vector<ProgramInput> inputs;
  std::vector<ProgramOutput> outputs;
  std::map<std::string, SymbolRange> symbols;
  std::vector<std::string> guards;       ///< Python conditions on the inputs' sizes
  std::vector<std::string> input_names;  ///< names of forward's arguments, as far as the file holds them
  std::string torch_version;
  int schema_minor = 0;
  bool decomposed = false;                   ///< exported after run_decompositions(): functional form, not trainable
  std::string batch_limit{};                 ///< the user's line that limits the batch: "net.py:8, if x.shape[0] < 64:"; "" if unknown
  std::set<std::string> cumulative_norms{};  ///< modules whose running statistics are the mean over all batches (momentum=None)
};

/// Calls `visit` with the index of every value in the argument; None has no index.
template <class Visit>
void each_value(const ProgramArgument& argument, const Visit& visit) {
  if (const auto* one = std::get_if<ProgramValue>(&argument)) visit(one->index);
  if (const auto* list = std::get_if<ProgramTensors>(&argument))
    for (const ProgramValue& entry : *list)
      if (entry.index >= 0) visit(entry.index);
}

/// Reads models/model.json. `where` names the file in messages.
/// Throws Error that names the node: not JSON; another schema major; a field missing or of the wrong type; an undefined or duplicate name;
/// arguments that can't be run (custom objects, tokens); more than 100,000 nodes or 200,000 values.
[[nodiscard]] ExportedProgram read_program(const std::string& json, const std::string& where);

/// Reads a model_weights_config.json or model_constants_config.json: stored tensors by full name.
/// Throws Error as read_program() does, and for record names that point outside of the archive's folder.
[[nodiscard]] std::map<std::string, StoredTensor> read_stored_tensors(const std::string& json, const std::string& where);

}  // namespace mptune::profiler
