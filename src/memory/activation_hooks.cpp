#include "memory/activation_hooks.h"

#include <torch/csrc/autograd/engine.h>

#include <mutex>

namespace trainer::memory {
namespace {

thread_local HookedRun* hooked = nullptr;

// Note [An engine for the hooks]: torch's saved-tensor hooks for a region of code are Python
// objects. What C++ has is the engine's virtual function that gives the default hooks, by which
// Python's engine hands out those objects. Ours gives the hooks of the thread's run; in all else it
// is the base engine.
class Engine final : public torch::autograd::Engine {
 public:
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return hooked == nullptr ? nullptr : hooked->hooks();
  }
  // Never destroyed: its device threads wait for work until the process ends.
  static torch::autograd::Engine& get() {
    static Engine* const engine = new Engine();
    return *engine;
  }
};

}  // namespace

Hooked::Hooked(HookedRun& run) : before_(hooked) {
  hooked = &run;
  recompute::current = &run;
}

Hooked::~Hooked() {
  hooked = before_;
  recompute::current = before_;
}

void install_hooks() {
  static std::once_flag once;
  std::call_once(once, [] { torch::autograd::set_default_engine_stub(Engine::get); });
}

}  // namespace trainer::memory
