package tidings

/*
#include <tidings.h>
*/
import "C"

// takeTexts copies texts, and frees them; one that is not there is "".
func takeTexts(texts *C.tidings_texts) ([]string, error) {
	defer C.tidings_texts_free(texts)
	var count C.size_t
	if err := attempt(func() C.tidings_result { return C.tidings_texts_count(texts, &count) }); err != nil {
		return nil, err
	}
	found := make([]string, count)
	for at := range found {
		var one C.tidings_bytes
		err := attempt(func() C.tidings_result {
			return C.tidings_texts_get(texts, C.size_t(at), &one, C.sizeof_tidings_bytes)
		})
		if err != nil {
			return nil, err
		}
		found[at] = view(one)
	}
	return found, nil
}
