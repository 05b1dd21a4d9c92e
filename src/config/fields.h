// The declarations of every field, as one type. Declared in fields.cpp (the run) and the files
// fields_model.cpp, fields_data.cpp, fields_text.cpp and fields_optim.cpp.
#pragma once

#include "config/declare.h"

namespace trainer::config {

Of<Model> model_type();
Of<Data> data_type();
Of<Objective> objective_type();
// The kinds of text for TaggedKinds of Source.
Fields<TokenFiles> token_files();
Fields<TextFiles> text_files();
Fields<JsonlFiles> jsonl_files();
Fields<TinyShakespeare> tiny_shakespeare();
Of<Optim> optim_type();
Of<Schedule> schedule_type();

// Of an Experiment. The key `base` is not a field: it is read before.
const Structure& experiment_type();

}  // namespace trainer::config
