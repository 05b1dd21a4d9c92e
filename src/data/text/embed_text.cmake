# cmake -D OUTPUT=embedded_text.cpp -D FILE=datasets/tinyshakespeare/input.txt -P embed_text.cmake
# Writes the definition of embedded_text.h from the text in FILE.
file(READ ${FILE} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"data/text/embedded_text.h\"\n\n"
     "namespace trainer::data::embedded {\nnamespace {\n"
     "constexpr std::uint8_t kTinyShakespeare[] = {${bytes}};\n"
     "}  // namespace\n\nBytes tinyshakespeare() { return kTinyShakespeare; }\n\n"
     "}  // namespace trainer::data::embedded\n")
