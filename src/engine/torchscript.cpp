#include "engine/torchscript.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/sin.h>
#include <c10/util/Exception.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"

namespace trainer::engine {
namespace {

namespace jit = torch::jit;

at::Tensor logits_of(models::Model& model, const at::Tensor& input) {
  const Output output = model.forward(input);
  if (output.logits.defined()) return output.logits;
  return at::linear(output.hidden, output.head);
}

struct Shape {
  std::int64_t batch = 0, length = 0;  // length: of text
};

// Values that differ from one place to the next, and are the same in every run.
at::Tensor example(const ScriptInput& input, const Shape& shape) {
  if (input.context > 0) {
    const auto ids = at::arange(shape.batch * shape.length, at::TensorOptions().dtype(at::kLong));
    return ids.remainder(2).view({shape.batch, shape.length});
  }
  const models::InputShape& image = input.image;
  const std::int64_t size = image.channels * image.height * image.width;
  const auto values = at::arange(shape.batch * size, at::TensorOptions().dtype(at::kFloat));
  return at::sin(values).view({shape.batch, image.channels, image.height, image.width});
}

// The module whose attributes are the model's tensors: "layer1.0.conv1.weight" is the attribute
// `weight` of the module `conv1` of ...
class ModuleTree {
 public:
  ModuleTree() : root_("__torch__.Model") {}

  void add(const std::string& name, const at::Tensor& value, bool parameter) {
    const std::size_t dot = name.rfind('.');
    jit::Module parent = dot == std::string::npos ? root_ : folder(name.substr(0, dot));
    const std::string own = dot == std::string::npos ? name : name.substr(dot + 1);
    if (parameter)
      parent.register_parameter(own, value, /*is_buffer=*/false);
    else
      parent.register_buffer(own, value);
  }
  jit::Module& root() { return root_; }

 private:
  jit::Module folder(const std::string& path) {
    if (const auto found = folders_.find(path); found != folders_.end()) return found->second;
    const std::size_t dot = path.rfind('.');
    jit::Module parent = dot == std::string::npos ? root_ : folder(path.substr(0, dot));
    jit::Module made(c10::QualifiedName("__torch__.Part"), root_._ivalue()->compilation_unit(),
                     /*shouldMangle=*/true);
    parent.register_module(dot == std::string::npos ? path : path.substr(dot + 1), made);
    folders_.emplace(path, made);
    return made;
  }

  jit::Module root_;
  std::map<std::string, jit::Module> folders_;
};

jit::Module tree_of(const models::Model& model) {
  ModuleTree tree;
  for (const NamedTensor& parameter : model.parameters()) {
    parameter.value.set_requires_grad(false);
    tree.add(parameter.name, parameter.value, /*parameter=*/true);
  }
  for (const NamedTensor& buffer : model.buffers())
    tree.add(buffer.name, buffer.value, /*parameter=*/false);
  return tree.root();
}

std::shared_ptr<jit::Graph> trace(models::Model& model, jit::Module& module,
                                  const at::Tensor& input) {
  const auto forward = [&model](const jit::Stack& inputs) {
    return jit::Stack{logits_of(model, inputs.at(0).toTensor())};
  };
  auto traced = jit::tracer::trace({input}, forward,
                                   [](const at::Tensor&) { return std::string(); }, /*strict=*/true,
                                   /*force_outplace=*/false, &module, {"input"});
  jit::EliminateDeadCode(traced.first->graph);
  return traced.first->graph;
}

// Note [Open sizes]: a trace of C++ code holds the sizes of its example as numbers. Those of an
// example with sizes that nothing else has (primes, tried out afterwards) become questions to the
// input.
void open_sizes(jit::Graph& graph, const std::vector<std::int64_t>& sizes) {
  jit::Value* input = graph.inputs().at(1);
  const jit::WithInsertPoint place(*graph.nodes().begin());
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
    std::vector<jit::Value*> found;
    for (jit::Node* node : graph.nodes()) {
      if (node->kind() != jit::prim::Constant || node->output()->type() != c10::IntType::get())
        continue;
      if (jit::toIValue(node->output())->toInt() == sizes[dim]) found.push_back(node->output());
    }
    if (found.empty()) continue;
    jit::Value* which = graph.insertConstant(static_cast<std::int64_t>(dim));
    jit::Value* size = graph.insert(jit::aten::size, {input, which});
    for (jit::Value* constant : found) constant->replaceAllUsesWith(size);
  }
  jit::EliminateDeadCode(graph.block());
}

// The trace remembers its example's shapes, which do not hold for others.
void forget_shapes(jit::Graph& graph) {
  for (jit::Value* input : graph.inputs())
    if (input->type()->isSubtypeOf(*c10::TensorType::get())) input->setType(c10::TensorType::get());
  for (jit::Node* node : graph.nodes())
    for (jit::Value* output : node->outputs())
      if (output->type()->kind() == c10::TypeKind::TensorType)
        output->setType(c10::TensorType::get());
}

jit::Module make_module(models::Model& model, const ScriptInput& input, const Shape& shape,
                        bool open) {
  jit::Module module = tree_of(model);
  const auto graph = trace(model, module, example(input, shape));
  if (open) {
    std::vector<std::int64_t> sizes{shape.batch};
    if (shape.length > 0) sizes.push_back(shape.length);
    open_sizes(*graph, sizes);
  }
  forget_shapes(*graph);
  const c10::QualifiedName name(*module.type()->name(), "forward");
  module.type()->addMethod(module._ivalue()->compilation_unit()->create_function(name, graph));
  return module;
}

bool agrees(models::Model& model, jit::Module& module, const ScriptInput& input,
            const Shape& shape) {
  constexpr double kTolerance = 1e-5;
  try {
    const at::Tensor given = example(input, shape);
    const at::Tensor wanted = logits_of(model, given);
    const at::Tensor got = module.forward({given}).toTensor();
    return got.sizes() == wanted.sizes() && at::allclose(got, wanted, kTolerance, kTolerance);
  } catch (const std::exception&) {
    return false;
  }
}

// Shapes that show whether sizes are open.
std::vector<Shape> trial_shapes(const ScriptInput& input) {
  if (input.context == 0) return {{1, 0}, {2, 0}, {6, 0}};
  return {{1, 1}, {1, input.context}, {3, std::max<std::int64_t>(1, input.context / 2)}};
}

std::optional<jit::Module> make_open(models::Model& model, const ScriptInput& input) {
  constexpr std::array<Shape, 3> kExamples{Shape{7, 13}, Shape{11, 19}, Shape{17, 23}};
  for (Shape shape : kExamples) {
    if (input.context == 0) shape.length = 0;
    if (shape.length > input.context) continue;
    jit::Module module = make_module(model, input, shape, /*open=*/true);
    bool good = true;
    for (const Shape& trial : trial_shapes(input))
      good = good && agrees(model, module, input, trial);
    if (good) return module;
  }
  return std::nullopt;
}

}  // namespace

ScriptShapes write_torchscript(models::Model& model, const ScriptInput& input,
                               const std::filesystem::path& file) {
  const at::NoGradGuard no_grad;
  ScriptShapes shapes{true, input.context > 0};
  std::optional<jit::Module> module = make_open(model, input);
  if (!module) {
    shapes = {};
    const Shape fixed{1, input.context};
    module = make_module(model, input, fixed, /*open=*/false);
    if (!agrees(model, *module, input, fixed))
      throw Error(Exit::internal, "the traced model gives other logits than the model");
  }
  // Through a stream: given a name, the archive would call itself by it.
  std::ofstream stream(file, std::ios::binary);
  module->save(stream);
  stream.close();
  if (!stream)
    throw Error(Exit::storage, file.string() + " cannot be written: " + std::strerror(errno));
  return shapes;
}

}  // namespace trainer::engine
