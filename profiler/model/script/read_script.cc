#include "profiler/model/script/read_script.h"

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/operator_upgraders/upgraders_entry.h>
#include <torch/csrc/jit/runtime/print_handler.h>
#include <torch/csrc/jit/serialization/import_source.h>
#include <torch/csrc/jit/serialization/unpickler.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/model/script/script_code.h"

namespace mptune::profiler {
namespace {

using c10::IValue;

constexpr const char* kSaveAgain = "save it again in Python: torch.jit.script(model).save(FILE)";

// Returns the tensors within a value and the objects that it holds, each once.
std::vector<at::Tensor> tensors_in(const IValue& value) {
  std::vector<at::Tensor> tensors;
  std::set<const void*> seen;
  std::vector<IValue> open{value};
  while (!open.empty()) {
    const IValue item = std::move(open.back());
    open.pop_back();
    if (item.isPtrType() && !seen.insert(item.internalToPointer()).second) continue;
    if (item.isTensor()) {
      tensors.push_back(item.toTensor());
    } else if (item.isTuple()) {
      for (const IValue& element : item.toTupleRef().elements()) open.push_back(element);
    } else if (item.isList()) {
      for (const IValue& element : item.toListRef()) open.push_back(element);
    } else if (item.isGenericDict()) {
      for (const auto& entry : item.toGenericDict()) open.insert(open.end(), {entry.key(), entry.value()});
    } else if (item.isObject()) {
      for (const IValue& slot : item.toObjectRef().slots()) open.push_back(slot);
    }
  }
  return tensors;
}

// Returns the elements of the storage that a strided tensor reaches, from the storage's begin; -1 if its sizes make no sense.
std::int64_t reach_of(const at::Tensor& tensor) {
  std::int64_t reach = tensor.storage_offset() + 1;
  if (reach < 1) return -1;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    std::int64_t step = 0;
    if (tensor.size(i) < 0 || tensor.stride(i) < 0 ||
        __builtin_mul_overflow(std::max<std::int64_t>(0, tensor.size(i) - 1), tensor.stride(i), &step) ||
        __builtin_add_overflow(reach, step, &reach))
      return -1;
  }
  return reach;
}

class ScriptReader {
 public:
  explicit ScriptReader(const std::string& path)
      : path_(path),
        reader_(path),
        unit_(std::make_shared<torch::jit::CompilationUnit>()),
        importer_(
            unit_, &constants_, [this](const std::string& qualifier) { return source(qualifier); }, reader_.version()) {}

  torch::jit::Module read() {
    const IValue constants = unpickled("constants");
    if (!constants.isTuple()) refuse("its constants are no tuple");
    constants_ = constants.toTupleRef().elements().vec();
    const IValue model = unpickled("data");
    if (!model.isObject() || !model.toObjectRef().type()->is_module()) refuse("it holds no module");
    check_script_operators(*unit_, path_);
    return torch::jit::Module(model.toObject());
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { throw Error(what, path_, kSaveAgain); }

  /// Returns the source of all classes and functions with this prefix; nullptr if there is none.
  std::shared_ptr<torch::jit::Source> source(const std::string& qualifier) {
    std::string name = "code/" + qualifier;
    std::replace(name.begin(), name.end(), '.', '/');
    name += ".py";
    if (!reader_.hasRecord(name)) return nullptr;
    const auto [data, bytes] = reader_.getRecord(name);
    auto result = std::make_shared<torch::jit::Source>(std::string(static_cast<const char*>(data.get()), bytes), name, 1);
    check_script_source(result, path_);
    return result;
  }

  IValue unpickled(const std::string& archive) {
    const auto [data, bytes] = reader_.getRecord(archive + ".pkl");
    std::string_view rest(static_cast<const char*>(data.get()), bytes);
    // LibTorch reads the elements of these while it builds them, before they can be compared with their records.
    for (const char* kind : {"_rebuild_sparse_tensor", "_rebuild_qtensor"})
      if (rest.find(kind) != std::string_view::npos) refuse("it holds sparse or quantized tensors, which can't be trained here");
    const auto read = [&](char* buffer, std::size_t count) {
      const std::string_view part = rest.substr(0, count);
      std::memcpy(buffer, part.data(), part.size());
      rest.remove_prefix(part.size());
      return part.size();
    };
    const auto record = [&](const std::string& name) {
      auto [content, size] = reader_.getRecord(archive + "/" + name);
      record_bytes_[content.get()] = size;
      return std::move(content);
    };
    torch::jit::Unpickler unpickler(
        read, [this](const c10::QualifiedName& name) { return type(name); },
        [this](const auto& type, const IValue& state) { return object(type, state); }, record, at::Device(at::kCPU));
    unpickler.set_version(reader_.version());
    IValue value = unpickler.parse_ivalue();
    for (const at::Tensor& tensor : tensors_in(value)) check(tensor);
    return value;
  }

  c10::StrongTypePtr type(const c10::QualifiedName& name) {
    if (name.qualifiedName().starts_with("__torch__.torch.classes"))
      refuse("it holds an object of the C++ class " + name.name() + ", which can't be trained here");
    return {unit_, importer_.loadType(name)};
  }

  /// Makes an object as its attributes say.
  c10::intrusive_ptr<c10::ivalue::Object> object(const c10::StrongTypePtr& type, const IValue& state) const {
    const auto kind = type.type_->cast<c10::ClassType>();
    if (kind != nullptr && kind->findMethod("__setstate__") != nullptr)
      refuse("its class " + kind->name()->name() + " has a __setstate__, code that runs while the file is read");
    if (kind == nullptr || !state.isGenericDict()) refuse("an object in it has no attributes");
    const auto attributes = state.toGenericDict();
    auto made = c10::ivalue::Object::create(type, kind->numAttributes());
    for (std::size_t i = 0; i < kind->numAttributes(); ++i) {
      const auto found = attributes.find(kind->getAttributeName(i));
      if (found == attributes.end() || !fits(found->value(), *kind->getAttribute(i)))
        refuse("attribute '" + kind->getAttributeName(i) + "' of its class " + kind->name()->name() + " is missing or of another type");
      made->setSlot(i, found->value());
    }
    return made;
  }

  /// True if a value may be read as a type, as far as LibTorch does not check itself when the attribute is used.
  static bool fits(const IValue& value, const c10::Type& type) {
    switch (type.kind()) {
      case c10::TypeKind::TensorType:
        return value.isTensor();
      case c10::TypeKind::ClassType:
        return value.isObject() && value.type()->isSubtypeOf(type);
      case c10::TypeKind::IntType:
        return value.isInt();
      case c10::TypeKind::BoolType:
        return value.isBool();
      case c10::TypeKind::FloatType:
        return value.isDouble();
      case c10::TypeKind::StringType:
        return value.isString();
      case c10::TypeKind::ListType:
        return value.isList();
      case c10::TypeKind::DictType:
        return value.isGenericDict();
      case c10::TypeKind::TupleType:
        return value.isTuple();
      default:
        return true;
    }
  }

  void check(const at::Tensor& tensor) const {
    if (!tensor.defined() || tensor.numel() == 0) return;
    const auto found = tensor.has_storage() ? record_bytes_.find(tensor.storage().data()) : record_bytes_.end();
    const auto bytes = static_cast<std::int64_t>(tensor.has_storage() ? tensor.storage().nbytes() : 0);
    const std::int64_t reach = found == record_bytes_.end() ? -1 : reach_of(tensor);
    if (reach < 1 || bytes > static_cast<std::int64_t>(found->second) || reach > bytes / tensor.element_size())
      refuse("a record in it is shorter than its tensor");
  }

  const std::string& path_;
  caffe2::serialize::PyTorchStreamReader reader_;
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  std::vector<IValue> constants_;
  torch::jit::SourceImporter importer_;
  std::map<const void*, std::size_t> record_bytes_;  ///< by the memory that holds the record
};

}  // namespace

torch::jit::Module read_script(const std::string& path) {
  torch::jit::setPrintHandler([](const std::string& /*text*/) {});
  torch::jit::populate_upgraders_graph_map();
  return ScriptReader(path).read();
}

}  // namespace mptune::profiler
