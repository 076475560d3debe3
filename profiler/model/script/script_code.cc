#include "profiler/model/script/script_code.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/parser.h>
#include <torch/csrc/jit/frontend/tree_views.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/model/layers/permitted_operators.h"

namespace mptune::profiler {
namespace {

using torch::jit::TreeRef;

constexpr const char* kRemedy = "write the model with PyTorch's operators on tensors alone, or make it a plug-in, which is trusted";

// LibTorch's own operations on values, control flow and calls; the kinds that it keeps for other runtimes and tasks are left out.
constexpr std::string_view kPrimitives[] = {"Constant",
                                            "Return",
                                            "Param",
                                            "If",
                                            "Loop",
                                            "ListConstruct",
                                            "ListUnpack",
                                            "DictConstruct",
                                            "TupleConstruct",
                                            "TupleUnpack",
                                            "TupleIndex",
                                            "TupleSlice",
                                            "GetAttr",
                                            "SetAttr",
                                            "HasAttr",
                                            "CallFunction",
                                            "CallMethod",
                                            "CreateObject",
                                            "Uninitialized",
                                            "Print",
                                            "RaiseException",
                                            "NumToTensor",
                                            "ConstantChunk",
                                            "StringIndex",
                                            "EnumName",
                                            "EnumValue",
                                            "Enter",
                                            "Exit",
                                            "annotate",
                                            "unchecked_cast",
                                            "unchecked_unwrap_optional",
                                            "isinstance",
                                            "rangelist",
                                            "abs",
                                            "max",
                                            "min",
                                            "data",
                                            "device",
                                            "dtype",
                                            "grad",
                                            "id",
                                            "index",
                                            "itemsize",
                                            "layout",
                                            "name",
                                            "nbytes",
                                            "requires_grad",
                                            "shape",
                                            "tolist",
                                            "type",
                                            "is_cpu",
                                            "is_cuda",
                                            "is_ipu",
                                            "is_maia",
                                            "is_meta",
                                            "is_mkldnn",
                                            "is_mps",
                                            "is_mtia",
                                            "is_nested",
                                            "is_quantized",
                                            "is_sparse",
                                            "is_sparse_csr",
                                            "is_vulkan",
                                            "is_xla",
                                            "is_xpu"};

std::string place_of(const torch::jit::SourceRange& range) {
  const auto place = range.file_line_col();
  return place ? std::get<0>(*place) + ":" + std::to_string(std::get<1>(*place)) : "unknown line";
}

bool is_name(const TreeRef& tree, std::string_view name) {
  return tree->kind() == torch::jit::TK_VAR && torch::jit::Var(tree).name().name() == name;
}

// True for the calls that LibTorch writes into literals: annotate(List[int], []), torch.device("cpu"), uninitialized(int).
bool is_literal_call(const TreeRef& callee) {
  if (is_name(callee, "annotate") || is_name(callee, "float") || is_name(callee, "uninitialized")) return true;
  if (callee->kind() != '.') return false;
  const torch::jit::Select select(callee);
  return is_name(select.value().tree(), "torch") && select.selector().name() == "device";
}

bool is_literal(const TreeRef& tree) {
  const auto all = [](const auto& trees) { return std::ranges::all_of(trees, is_literal); };
  switch (tree->kind()) {
    case torch::jit::TK_CONST:
    case torch::jit::TK_STRINGLITERAL:
    case torch::jit::TK_TRUE:
    case torch::jit::TK_FALSE:
    case torch::jit::TK_NONE:
    case torch::jit::TK_VAR:        // inf, nan
    case torch::jit::TK_SUBSCRIPT:  // a type within annotate()
    case '.':
      return true;  // a value of an enumeration, CONSTANTS.c0
    case torch::jit::TK_LIST:
    case torch::jit::TK_LIST_LITERAL:
    case torch::jit::TK_TUPLE_LITERAL:
    case torch::jit::TK_DICT_LITERAL:
    case torch::jit::TK_UNARY_MINUS:
      return all(tree->trees());
    case torch::jit::TK_APPLY: {
      const torch::jit::Apply call(tree);
      return is_literal_call(call.callee().tree()) && all(call.inputs().tree()->trees());
    }
    default:
      return false;
  }
}

class SourceCheck {
 public:
  explicit SourceCheck(const std::string& path) : path_(path) {}

  // Does not recurse, because the file decides how deep a tree is.
  void walk(const TreeRef& root) const {
    std::vector<TreeRef> open{root};
    while (!open.empty()) {
      const TreeRef tree = open.back();
      open.pop_back();
      if (tree->isAtom()) continue;
      if (tree->kind() == torch::jit::TK_PARAM) check(torch::jit::Param(tree).defaultValue());
      if (tree->kind() == torch::jit::TK_CLASS_DEF) check_class(torch::jit::ClassDef(tree));
      open.insert(open.end(), tree->trees().begin(), tree->trees().end());
    }
  }

 private:
  void check_class(const torch::jit::ClassDef& definition) const {
    for (const torch::jit::Stmt& statement : definition.body())
      if (statement.kind() == torch::jit::TK_ASSIGN) check(torch::jit::Assign(statement).rhs());
  }
  void check(const torch::jit::Maybe<torch::jit::Expr>& value) const {
    if (value.present() && !is_literal(value.get().tree()))
      throw Error("its code (" + place_of(value.get().range()) +
                      ") has an expression where only a constant may stand, as it is evaluated while the file is read",
                  path_, kRemedy);
  }

  const std::string& path_;
};

// Skips a heading within its parser's token stream, which LibTorch's importer skips, too.
void skip_heading(torch::jit::Lexer& lexer) {
  const auto skip_line = [&] {
    while (lexer.cur().kind != torch::jit::TK_NEWLINE && lexer.cur().kind != torch::jit::TK_EOF) lexer.next();
    lexer.nextIf(torch::jit::TK_NEWLINE);
  };
  if (lexer.cur().kind == torch::jit::TK_IDENT && lexer.cur().text() == "op_version_set") skip_line();
  while (lexer.cur().kind == torch::jit::TK_IMPORT) skip_line();
}

// True for objects of C++ classes that LibTorch registers: streams, process groups, packed weights.
bool is_foreign_object(const c10::TypePtr& type) {
  const auto object = type->cast<c10::ClassType>();
  return object != nullptr && object->name() && object->name()->qualifiedName().starts_with("__torch__.torch.classes");
}

std::string refusal_of(const torch::jit::Node& node) {
  const std::string_view kind = node.kind().toQualString();
  const auto foreign = [](const torch::jit::Value* value) { return is_foreign_object(value->type()); };
  if (std::ranges::any_of(node.inputs(), foreign) || std::ranges::any_of(node.outputs(), foreign))
    return "uses an object of a C++ class, which a program may not";
  constexpr std::string_view kPrimitive = "prim::";
  if (kind.starts_with(kPrimitive) && std::ranges::find(kPrimitives, kind.substr(kPrimitive.size())) != std::end(kPrimitives)) return "";
  if (const c10::FunctionSchema* schema = node.maybeSchema(); schema != nullptr) return refusal_of_operator(*schema);
  return "is not an operator of LibTorch that a program may call";
}

void check_block(const torch::jit::Block& block, const std::string& path) {
  for (const torch::jit::Node* node : block.nodes()) {
    if (const std::string refusal = refusal_of(*node); !refusal.empty())
      throw Error("'" + std::string(node->kind().toQualString()) + "' in its code (" + place_of(node->sourceRange()) + ") " + refusal, path,
                  kRemedy);
    for (const torch::jit::Block* inner : node->blocks()) check_block(*inner, path);
  }
}

}  // namespace

void check_script_source(const std::shared_ptr<torch::jit::Source>& source, const std::string& path) {
  const SourceCheck check(path);
  torch::jit::Parser parser(source);
  torch::jit::Lexer& lexer = parser.lexer();
  skip_heading(lexer);
  while (lexer.cur().kind != torch::jit::TK_EOF) {
    if (lexer.cur().kind == torch::jit::TK_CLASS_DEF)
      check.walk(parser.parseClass());
    else
      check.walk(parser.parseFunction(/*is_method=*/false));
    skip_heading(lexer);
  }
}

void check_script_operators(torch::jit::CompilationUnit& unit, const std::string& path) {
  // A function is compiled when its graph is asked for, which may add those that it calls.
  for (std::size_t checked = 0, known = unit.get_functions().size(); checked < known; known = unit.get_functions().size())
    for (const auto functions = unit.get_functions(); checked < functions.size(); ++checked)
      check_block(*torch::jit::toGraphFunction(*functions[checked]).graph()->block(), path);
}

}  // namespace mptune::profiler
